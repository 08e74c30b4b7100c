// Package signal reads all that a decision may rest on: the inventory of each
// cell, the answers of the central Prometheus servers, and the live Nodes and
// Leases of business clusters. It writes nothing and decides nothing. What
// cannot be read is marked as unknown, and never slows what can.
package signal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/skew"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Selectors that the centrals are asked for.
const (
	selectHeartbeat = "cell:heartbeat:timestamp_seconds"
	selectUp        = "cluster:up:min"
	selectUnhealthy = "node:unhealthy:info"
	selectUnready   = "node:unready:seconds30m"
)

// unreadyAge is how old an evaluation of selectUnready may be. Of half an hour it is little.
const unreadyAge = 2 * time.Minute

// labelReplica is the external label by which centrals are told apart.
const labelReplica = "central_replica"

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
	var err error
	out.Replica, err = retry(ctx, func() (string, error) { return c.Client.ExternalLabel(ctx, labelReplica) })
	if err != nil && !errors.Is(err, promapi.ErrNameless) {
		return policy.Central{Name: c.Name, Err: err.Error()}
	}
	unready := unready{now: r.now(), of: map[policy.NodeRef]time.Duration{}}
	for _, part := range []struct {
		selector string
		take     func(*policy.Central, promapi.Sample) error
	}{
		{selectUnready, unready.take},
		{selectHeartbeat, takeHeartbeat},
		{selectUp, takeUp},
		{selectUnhealthy, takeUnhealthy},
	} {
		a, err := retry(ctx, func() (promapi.Answer, error) { return c.Client.Samples(ctx, part.selector, r.now()) })
		if err != nil {
			return policy.Central{Name: c.Name, Err: err.Error()}
		}
		out.ClockSkew.Duration = skew.Worse(out.ClockSkew.Duration, a.Skew)
		out.Warnings = append(out.Warnings, a.Warnings...)
		for _, u := range a.Unusable {
			warn(&out, u.Labels, u.Why)
		}
		for _, s := range a.Samples {
			if err := part.take(&out, s); err != nil {
				warn(&out, s.Labels, fmt.Sprintf("%s: %v", part.selector, err))
			}
		}
	}
	for i := range out.Unhealthy {
		u := &out.Unhealthy[i]
		u.Unready.Duration = unready.of[policy.NodeRef{Cell: u.Cell, Cluster: u.Cluster, Node: u.Node}]
	}
	return out
}

// warn lets a bad series speak against its own cell only, and against all if it
// does not say whose it is.
func warn(c *policy.Central, labels map[string]string, message string) {
	if cell := labels["cell"]; cell != "" {
		c.Partial = append(c.Partial, policy.CellWarning{Cell: cell, Message: message})
		return
	}
	c.Warnings = append(c.Warnings, message)
}

// retry asks again within the deadline: one lost connection is no finding.
func retry[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	steps := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(time.Second))
	return backoff.RetryWithData(ask, backoff.WithContext(backoff.WithMaxRetries(steps, 2), ctx))
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

// unready is for how long nodes were not ready of late.
type unready struct {
	now time.Time
	of  map[policy.NodeRef]time.Duration
}

// take leaves out what is old: it is evaluated by the central itself, and that may hang.
func (u unready) take(_ *policy.Central, s promapi.Sample) error {
	if err := need(s, "cell", "cluster", "node"); err != nil {
		return err
	}
	if !(s.Value >= 0 && s.Value <= 2*policy.UnreadyWindow.Seconds()) {
		return fmt.Errorf("node %s has the value %g, want seconds of the last half hour", s.Labels["node"], s.Value)
	}
	if u.now.Sub(s.At).Abs() <= unreadyAge {
		ref := policy.NodeRef{Cell: s.Labels["cell"], Cluster: s.Labels["cluster"], Node: s.Labels["node"]}
		u.of[ref] = min(time.Duration(s.Value*float64(time.Second)), policy.UnreadyWindow)
	}
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
