package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
	c.loop(ctx)
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
