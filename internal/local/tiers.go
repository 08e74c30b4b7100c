package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/bootstrap"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

const (
	// tierInterval is how often the operator's report is read.
	tierInterval = 500 * time.Millisecond
	// answerTimeout bounds the question to one part.
	answerTimeout = 2 * time.Second
)

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

// own are the parts that are Pharos' own programs; the others are stock servers.
var own = map[string]bool{
	v1alpha1.ComponentNotify:          true,
	v1alpha1.ComponentRemediator:      true,
	v1alpha1.ComponentEdgeAgent:       true,
	v1alpha1.ComponentMachineOperator: true,
}

// answer asks every part whether it is ready, and says which is not.
func (t Tiers) answer(ctx context.Context) (bool, string) {
	parts := slices.Clone(t.Federation.Status.Parts)
	for _, c := range t.Cells {
		parts = append(parts, c.Status.Parts...)
	}
	for _, p := range parts {
		path := "/-/ready"
		if own[p.Name] {
			path = "/readyz"
		}
		for _, address := range p.Addresses {
			if !answers(ctx, "http://"+address+path) {
				return false, fmt.Sprintf("%s at %s does not answer", p.Name, address)
			}
		}
	}
	return true, ""
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
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

// awaitTiers waits until the operator says that every tier is ready, and each
// part says so itself: what the operator said may be from before the fleet was
// stopped.
func (s *start) awaitTiers(ctx context.Context) error {
	why := "the operator has said nothing"
	for {
		t, err := s.fleet.Tiers(ctx)
		if err == nil {
			var ok bool
			if ok, why = t.Ready(); ok {
				ok, why = t.answer(ctx)
			}
			if ok {
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
