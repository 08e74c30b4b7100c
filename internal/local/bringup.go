package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/local/bootstrap"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
	"github.com/pharos-fleet/pharos/internal/version"
)

const (
	lookInterval = 100 * time.Millisecond
	// hopeless is how often a component may end before the start is given up.
	hopeless = 5
	// logTail is how much of a log is shown with a failure, in bytes.
	logTail = 600
)

// bringUp installs Pharos while the components come up, waits until everything
// is ready, and lets go of the supervisor.
func (s *start) bringUp(ctx context.Context, h *handle) error {
	timeout := s.options.ReadyTimeout
	if timeout == 0 {
		timeout = defaultReadyTimeout
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	group, groupCtx := errgroup.WithContext(waiting)
	watch := &watcher{layout: s.layout, say: s.say, supervisor: h, change: make(chan struct{})}
	group.Go(func() error { return watch.run(groupCtx) })
	group.Go(func() error {
		defer watch.installed.Store(true)
		return s.install(groupCtx, watch)
	})
	if err := group.Wait(); err != nil {
		if ctx.Err() == nil {
			err = watch.unlessEnded(err)
		}
		return s.late(ctx, waiting, timeout, err)
	}
	r, err := readRecord(s.layout)
	if err != nil {
		return err
	}
	now := time.Now()
	r.ReadyAt, r.Starter = &now, 0
	return errors.Join(r.write(s.layout), h.release())
}

// late says what a start that took too long was waiting for.
func (s *start) late(ctx, waiting context.Context, timeout time.Duration, err error) error {
	if ctx.Err() != nil || !errors.Is(waiting.Err(), context.DeadlineExceeded) {
		return err
	}
	status, _ := supervisor.ReadStatus(s.layout.StatusFile())
	if ok, name := status.Ready(); !ok && name != "" {
		return fmt.Errorf("%s was not ready within %s%s", name, timeout, tail(s.layout, name))
	}
	return fmt.Errorf("the fleet was not ready within %s: %w", timeout, err)
}

func (s *start) install(ctx context.Context, w *watcher) error {
	robot, err := s.robot()
	if err != nil {
		return err
	}
	err = bootstrap.Install(ctx, bootstrap.Options{
		Layout: s.layout,
		Image:  version.Image,
		Robot:  robot,
		Connect: func(ctx context.Context, c layout.Cluster) (*rest.Config, error) {
			if err := w.await(ctx, layout.APIServer(c)); err != nil {
				return nil, err
			}
			return s.fleet.Config(c)
		},
		Prepared: func(c layout.Cluster) error { return pki.WriteSecret(s.layout.PreparedFile(c), nil) },
	})
	if err != nil {
		return err
	}
	s.say.line("Pharos is installed; waiting for its tiers")
	return s.awaitTiers(ctx)
}

func (s *start) robot() (bootstrap.Robot, error) {
	files := robotFiles(s.layout)
	token, err := os.ReadFile(files.AccessToken)
	if err != nil {
		return bootstrap.Robot{}, fmt.Errorf("reading the robot's token: %w", err)
	}
	secret, err := os.ReadFile(files.Secret)
	if err != nil {
		return bootstrap.Robot{}, fmt.Errorf("reading the robot's key: %w", err)
	}
	url := "http://" + s.layout.DingTalkAddress() + "/robot/send"
	return bootstrap.Robot{URL: url, AccessToken: string(token), Secret: string(secret)}, nil
}

// tail is the end of a component's log, for an error.
func tail(l layout.Layout, component string) string {
	b, err := os.ReadFile(l.LogFile(component))
	if err != nil || len(b) == 0 {
		return ""
	}
	b = b[max(0, len(b)-logTail):]
	return ": its log ends with: " + strings.TrimSpace(string(b))
}
