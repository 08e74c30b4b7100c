package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
)

// server is one Prometheus and the name to show for it.
type server struct {
	name, address string
}

// Unhealthy asks every server of the tier that the target's series pass through.
func (f *Fleet) Unhealthy(ctx context.Context, tier string, t Target) ([]string, int, error) {
	servers, err := f.servers(ctx, tier, t)
	if err != nil {
		return nil, 0, err
	}
	// An edge adds the label cell only when another server reads it.
	selector := fmt.Sprintf("node:unhealthy:info{cluster=%q,node=%q}", t.Cluster, t.Node)
	having, err := f.ask(ctx, servers, selector)
	return having, len(servers), err
}

// Firing asks the centrals for the node's alert.
func (f *Fleet) Firing(ctx context.Context, t Target) ([]string, int, error) {
	servers, err := f.servers(ctx, TierCentral, t)
	if err != nil {
		return nil, 0, err
	}
	having, err := f.ask(ctx, servers, fmt.Sprintf(
		`ALERTS{alertname="PharosNodeNotReady",alertstate="firing",cell=%q,node=%q}`, t.Cell, t.Node))
	return having, len(servers), err
}

// Complete says how many cells the least informed central hears of, and how
// many it expects. Both are 0 when a central does not say.
func (f *Fleet) Complete(ctx context.Context) (contributing, expected int, err error) {
	servers, err := f.servers(ctx, TierCentral, Target{})
	if err != nil {
		return 0, 0, err
	}
	for i, s := range servers {
		got, err := f.value(ctx, s, "fleet:cells_contributing:count")
		if err != nil {
			return 0, 0, err
		}
		want, err := f.value(ctx, s, "fleet:cells_expected:count")
		if err != nil {
			return 0, 0, err
		}
		if i == 0 || got < contributing {
			contributing = got
		}
		expected = max(expected, want)
	}
	return contributing, expected, nil
}

// servers finds a tier's Prometheus servers in the status that the operator keeps.
func (f *Fleet) servers(ctx context.Context, tier string, t Target) ([]server, error) {
	if tier == TierEdge {
		return f.edges(ctx, t.Cell)
	}
	var federations v1alpha1.FederationList
	if err := f.list(ctx, f.options.Hub, &federations); err != nil {
		return nil, err
	}
	want := "central-"
	if tier == TierCascade {
		geography, err := f.geography(ctx, t.Cell)
		if err != nil {
			return nil, err
		}
		want = "cascade-" + geography
	}
	var found []server
	for _, federation := range federations.Items {
		for _, part := range federation.Status.Parts {
			if !strings.HasPrefix(part.Name, want) {
				continue
			}
			for _, address := range part.Addresses {
				found = append(found, server{part.Name, address})
			}
		}
	}
	if tier == TierCentral && len(found) < 2 {
		return nil, fmt.Errorf("finding the centrals: %d of 2 are ready", len(found))
	}
	return found, nil
}

func (f *Fleet) edges(ctx context.Context, cell string) ([]server, error) {
	var c v1alpha1.Cell
	if err := f.get(ctx, f.options.Hub, client.ObjectKey{Name: cell}, &c); err != nil {
		return nil, err
	}
	var found []server
	for _, endpoint := range c.Status.EdgeEndpoints {
		found = append(found, server{"edge of " + cell, endpoint})
	}
	return found, nil
}

func (f *Fleet) geography(ctx context.Context, cell string) (string, error) {
	var c v1alpha1.Cell
	err := f.get(ctx, f.options.Hub, client.ObjectKey{Name: cell}, &c)
	return c.Spec.Geography, err
}

// ask returns the servers that have the series.
func (f *Fleet) ask(ctx context.Context, servers []server, selector string) ([]string, error) {
	var having []string
	for _, s := range servers {
		samples, err := f.samples(ctx, s, selector)
		if err != nil {
			return having, err
		}
		if len(samples) > 0 {
			having = append(having, s.name)
		}
	}
	slices.Sort(having)
	return having, nil
}

func (f *Fleet) value(ctx context.Context, s server, selector string) (int, error) {
	samples, err := f.samples(ctx, s, selector)
	if err != nil || len(samples) == 0 {
		return 0, err
	}
	return int(samples[0].Value), nil
}

func (f *Fleet) samples(ctx context.Context, s server, selector string) ([]promapi.Sample, error) {
	c, ok := f.prometheus[s.address]
	if !ok {
		var err error
		c, err = promapi.New(promapi.Options{URL: "http://" + s.address, Timeout: readTimeout})
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", s.name, err)
		}
		f.prometheus[s.address] = c
	}
	answer, err := c.Samples(ctx, selector, time.Now())
	return answer.Samples, err
}
