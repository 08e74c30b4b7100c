package local

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/bootstrap"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// tierInterval is how often the operator's report is read.
const tierInterval = 500 * time.Millisecond

// Tiers is what the operator reports of the fleet.
type Tiers struct {
	Federation v1alpha1.Federation
	Cells      []v1alpha1.Cell
}

// Tiers reads what the operator reports of the tiers it runs.
func (f *Fleet) Tiers(ctx context.Context) (Tiers, error) {
	config, err := f.Config(layout.Hub())
	if err != nil {
		return Tiers{}, err
	}
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return Tiers{}, fmt.Errorf("connecting to the hub: %w", err)
	}
	var t Tiers
	if err := c.Get(ctx, client.ObjectKey{Name: bootstrap.FederationName}, &t.Federation); err != nil {
		return Tiers{}, fmt.Errorf("reading the federation: %w", err)
	}
	var cells v1alpha1.CellList
	if err := c.List(ctx, &cells); err != nil {
		return Tiers{}, fmt.Errorf("listing the cells: %w", err)
	}
	t.Cells = cells.Items
	return t, nil
}

// Ready says whether the federation and every cell are ready, and otherwise what is not.
func (t Tiers) Ready() (bool, string) {
	if ok, why := ready("federation "+t.Federation.Name, t.Federation.Status.Conditions, t.Federation.Generation); !ok {
		return false, why
	}
	for _, c := range t.Cells {
		if ok, why := ready("cell "+c.Name, c.Status.Conditions, c.Generation); !ok {
			return false, why
		}
	}
	return len(t.Cells) > 0, "no cell"
}

func ready(what string, conditions []metav1.Condition, generation int64) (bool, string) {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return false, what + " has not been looked at by the operator"
	case c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation:
		return false, fmt.Sprintf("%s is not ready: %s: %s", what, c.Reason, c.Message)
	}
	return true, ""
}

// awaitTiers waits until the operator says that every tier is ready.
func (s *start) awaitTiers(ctx context.Context) error {
	why := "the operator has said nothing"
	for {
		t, err := s.fleet.Tiers(ctx)
		if err == nil {
			var ok bool
			if ok, why = t.Ready(); ok {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the tiers: %s: %w", why, ctx.Err())
		case <-time.After(tierInterval):
		}
	}
}
