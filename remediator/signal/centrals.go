// Package signal reads all that a decision may rest on: the inventory of each
// cell, the answers of the central Prometheus servers, and the live Nodes and
// Leases of business clusters. It writes nothing and decides nothing. What
// cannot be read is marked as unknown, and never slows what can.
package signal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Selectors that the centrals are asked for.
const (
	selectHeartbeat = "cell:heartbeat:timestamp_seconds"
	selectUp        = "cluster:up:min"
	selectUnhealthy = "node:unhealthy:info"
)

// Central is one central Prometheus.
type Central struct {
	Name   string
	Client *promapi.Client
}

// Centrals asks every central at once and waits for all, each within the timeout.
func (r *Reader) Centrals(ctx context.Context) []policy.Central {
	answers := make([]policy.Central, len(r.centrals))
	var wg sync.WaitGroup
	for i, c := range r.centrals {
		wg.Go(func() { answers[i] = r.central(ctx, c) })
	}
	wg.Wait()
	return answers
}

func (r *Reader) central(ctx context.Context, c Central) policy.Central {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	out := policy.Central{Name: c.Name}
	for _, part := range []struct {
		selector string
		take     func(*policy.Central, promapi.Sample) error
	}{
		{selectHeartbeat, takeHeartbeat},
		{selectUp, takeUp},
		{selectUnhealthy, takeUnhealthy},
	} {
		a, err := ask(ctx, c.Client, part.selector, r.now())
		if err != nil {
			return policy.Central{Name: c.Name, Err: err.Error()}
		}
		out.Warnings = append(out.Warnings, a.Warnings...)
		for _, s := range a.Samples {
			if err := part.take(&out, s); err != nil {
				out.Warnings = append(out.Warnings, fmt.Sprintf("%s: %v", part.selector, err))
			}
		}
	}
	return out
}

// ask tries again within the deadline: one lost connection is no finding.
func ask(ctx context.Context, c *promapi.Client, selector string, at time.Time) (promapi.Answer, error) {
	var answer promapi.Answer
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(time.Second))
	err := backoff.Retry(func() error {
		var err error
		answer, err = c.Samples(ctx, selector, at)
		return err
	}, backoff.WithContext(backoff.WithMaxRetries(policy, 2), ctx))
	return answer, err
}

func need(s promapi.Sample, labels ...string) error {
	for _, l := range labels {
		if s.Labels[l] == "" {
			return fmt.Errorf("a series has no label %s", l)
		}
	}
	return nil
}

// takeHeartbeat believes the older of the heartbeat's value and its timestamp.
func takeHeartbeat(c *policy.Central, s promapi.Sample) error {
	if err := need(s, "cell"); err != nil {
		return err
	}
	at := s.At
	if said := promapi.Time(s.Value); said.Before(at) {
		at = said
	}
	c.Heartbeats = append(c.Heartbeats, policy.CellSample{Cell: s.Labels["cell"], At: at})
	return nil
}

func takeUp(c *policy.Central, s promapi.Sample) error {
	if err := need(s, "cell", "cluster"); err != nil {
		return err
	}
	if s.Value != 0 && s.Value != 1 {
		return fmt.Errorf("cluster %s has the value %g, want 0 or 1", s.Labels["cluster"], s.Value)
	}
	c.ClustersUp = append(c.ClustersUp, policy.ClusterSample{
		Cell: s.Labels["cell"], Cluster: s.Labels["cluster"], Up: s.Value == 1, At: s.At,
	})
	return nil
}

func takeUnhealthy(c *policy.Central, s promapi.Sample) error {
	if err := need(s, "cell", "cluster", "node"); err != nil {
		return err
	}
	if s.Value != 1 {
		return fmt.Errorf("node %s has the value %g, want 1", s.Labels["node"], s.Value)
	}
	c.Unhealthy = append(c.Unhealthy, policy.NodeSample{
		Cell: s.Labels["cell"], Cluster: s.Labels["cluster"], Node: s.Labels["node"],
		Zone: s.Labels["zone"], Rack: s.Labels["rack"], Reason: s.Labels["reason"], At: s.At,
	})
	return nil
}
