package controller

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// incidents reads every incident. Without them nothing may begin: one of them may hold
// what looks like a single failure.
func (c *Controller) incidents(ctx context.Context) ([]api.Incident, error) {
	var list api.IncidentList
	err := c.list(ctx, "incidents", &list)
	return list.Items, err
}

// reportIncidents writes down the incidents that begin, and how the others stand, and
// removes those that are closed and too many.
func (c *Controller) reportIncidents(ctx context.Context, known []api.Incident, plan policy.Plan) error {
	var errs []error
	all := map[string]*api.Incident{}
	for i := range known {
		all[known[i].Name] = &known[i]
	}
	for _, r := range plan.Incidents {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.reportIncident(ctx, all[r.Name], r); err != nil {
			errs = append(errs, fmt.Errorf("writing down incident %s of %s %s: %w", r.Name, r.Spec.Kind, r.Spec.Value, err))
		}
	}
	for _, name := range plan.Forgotten {
		errs = append(errs, c.forgetIncident(ctx, name))
	}
	return errors.Join(errs...)
}

// reportIncident is of two writes for an incident that begins. Between them, as after a
// crash, it has no status, and holds its machines as one that is open.
func (c *Controller) reportIncident(ctx context.Context, before *api.Incident, r policy.IncidentReport) error {
	if r.New {
		before = &api.Incident{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
		if err := c.createIncident(ctx, before); apierrors.IsAlreadyExists(err) {
			return nil // by the leader before us: the next round follows it
		} else if err != nil {
			return err
		}
	}
	after := before.DeepCopy()
	after.Status = r.Status
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	if c.onlyElsewhere(before, after) {
		return nil
	}
	written, err := c.writeStatus(ctx, before, after)
	if written {
		c.counted[after.Name] = c.now()
		if before.Status.Phase != after.Status.Phase {
			c.incidentMoved(after, r.Message)
		}
	}
	return err
}

func (c *Controller) createIncident(ctx context.Context, in *api.Incident) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	return c.hub.Create(ctx, in)
}

func (c *Controller) forgetIncident(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	delete(c.counted, name)
	err := c.hub.Delete(ctx, &api.Incident{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting closed incident %s: %w", name, err)
	}
	return nil
}

// onlyElsewhere spares the API server a write in every round for counts that the incident
// does not depend on.
func (c *Controller) onlyElsewhere(before, after *api.Incident) bool {
	was, is := before.Status.DeepCopy(), after.Status.DeepCopy()
	was.Elsewhere, was.ElsewhereAffected, is.Elsewhere, is.ElsewhereAffected = 0, 0, 0, 0
	return equality.Semantic.DeepEqual(was, is) && c.now().Sub(c.counted[before.Name]) < refresh
}
