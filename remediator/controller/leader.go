package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// The leader stops acting when it could not renew for renewDeadline; another may
// lead only leaseDuration after the last renewal. What lies between is more than
// actTimeout, the time that a last look and its write may take together.
const (
	leaseName     = "remediator"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	actTimeout    = 4 * time.Second
)

// errNotLeading means that this process has no Lease to write by.
var errNotLeading = errors.New("this remediator does not lead")

// lead runs the loop whenever this process is the leader. The loop has ended
// before the Lease is given up, so that two never act at once.
func (c *Controller) lead(ctx context.Context) error {
	lock := c.lock()
	// The election outlives ctx until the loop has ended.
	election, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	started, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(started)
				defer close(ended)
				defer end()
				c.leadUntil(ctx, leading)
			},
			OnStoppedLeading: func() { c.leads(false) },
			OnNewLeader:      c.follows,
		},
	})
	if err != nil {
		return fmt.Errorf("setting up leader election: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-started:
		default:
			end()
		}
	})
	defer stop()
	elector.Run(election)
	if ctx.Err() == nil {
		<-ended
		return errors.New("leading: the Lease was lost")
	}
	select {
	case <-started:
		<-ended
		return c.giveUp(lock)
	default:
		return nil
	}
}

// leadUntil runs the loop until either context ends.
func (c *Controller) leadUntil(ctx, leading context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leading, cancel)()
	if leading.Err() != nil {
		return
	}
	c.leads(true)
	c.log.Info("Leading", slog.String("identity", c.options.Identity))
	var hinting sync.WaitGroup
	hinting.Go(func() { c.hints.Lead(ctx) })
	c.loop(ctx)
	hinting.Wait()
}

func (c *Controller) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.options.Namespace, Name: leaseName},
		Client:     c.clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.options.Identity},
	}
}

// giveUp lets the next leader begin at once instead of after leaseDuration.
func (c *Controller) giveUp(lock *resourcelock.LeaseLock) error {
	ctx, cancel := context.WithTimeout(context.Background(), retryPeriod)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err != nil {
		return fmt.Errorf("giving up the Lease: %w", err)
	}
	if held.HolderIdentity != c.options.Identity {
		return nil
	}
	held.HolderIdentity, held.LeaseDurationSeconds = "", 1
	if err := lock.Update(ctx, *held); err != nil {
		return fmt.Errorf("giving up the Lease: %w", err)
	}
	return nil
}

// epoch reads from the Lease that this process leads by how often it has changed
// hands. That tells a request of this leader from a late one of another. Timers do
// not suffice: those of a machine that was suspended stood still with it.
func (c *Controller) epoch(ctx context.Context) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	held, _, err := c.lock().Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the Lease %s/%s that this remediator leads by: %w", c.options.Namespace, leaseName, err)
	}
	over := held.RenewTime.Add(time.Duration(held.LeaseDurationSeconds) * time.Second)
	switch {
	case held.HolderIdentity != c.options.Identity:
		return 0, fmt.Errorf("nothing is asked for: the Lease %s/%s is held by %q: %w", c.options.Namespace, leaseName, held.HolderIdentity, errNotLeading)
	case !c.now().Before(over):
		return 0, fmt.Errorf("nothing is asked for: the Lease %s/%s ran out at %s: %w", c.options.Namespace, leaseName, over.UTC().Format(time.RFC3339), errNotLeading)
	}
	return int32(held.LeaderTransitions), nil
}

// epochFor is the epoch to ask for a repair of the Machine in. A Lease that was made
// anew, as in a hub that was restored, begins to count from nought: every request
// would be refused until it has caught up.
func (c *Controller) epochFor(ctx context.Context, m *api.Machine) (int32, error) {
	epoch, err := c.epoch(ctx)
	if err != nil {
		return 0, err
	}
	if seen := ptr.Deref(m.Status.RemediationEpoch, 0); epoch < seen {
		return 0, fmt.Errorf("machine %s/%s has answered a request of epoch %d, and this leader is of epoch %d: if no other hub repairs the machine, "+
			"the Lease was made anew; let it count on: kubectl -n %s patch lease %s --type merge -p '{\"spec\":{\"leaseTransitions\":%d}}'",
			m.Namespace, m.Name, seen, epoch, c.options.Namespace, leaseName, seen+1)
	}
	return epoch, nil
}
