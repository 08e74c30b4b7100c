package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/bootstrap"
	"github.com/pharos-fleet/pharos/internal/local/fault"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// settleTimeout bounds the wait for a whole and healthy view before the fault.
const settleTimeout = 2 * time.Minute

// RunOptions of one demonstration.
type RunOptions struct {
	Fleet *local.Fleet
	Up    local.Options
	// Node to break, a worker of a business cluster.
	Node string
	// Timeout of the loop, from the fault on.
	Timeout time.Duration
	// Text receives one line for each step. Nil drops them.
	Text io.Writer
}

// Result is what a demonstration came to.
type Result struct {
	*Timeline
	Figures Figures `json:"figures"`
	// Report of the fleet when the loop had closed.
	Report local.Report `json:"-"`
}

// Figures are the costs that a fleet on one machine is held to.
type Figures struct {
	// ReadySeconds from the start of the first server to all tiers ready.
	ReadySeconds float64 `json:"readySeconds"`
	// ResidentBytes of all processes of the fleet, after the loop closed.
	ResidentBytes int `json:"residentBytes"`
	// RepairSeconds from the fault to the verified repair.
	RepairSeconds float64 `json:"repairSeconds"`
	// DownSeconds is how long the end of the fleet took; 0 while it runs.
	DownSeconds float64 `json:"downSeconds"`
}

// Run starts the fleet, breaks a node and watches the loop close. When it
// returns a result, the fleet runs, whatever the error: somebody will want to
// know why the loop did not close. Without a result nothing runs.
func Run(ctx context.Context, o RunOptions) (*Result, error) {
	cluster, err := layout.ClusterOfNode(o.Node)
	if err != nil {
		return nil, err
	}
	if o.Text == nil {
		o.Text = io.Discard
	}
	if err := refuseKept(ctx, o.Fleet); err != nil {
		return nil, err
	}
	if err := o.Fleet.Up(ctx, o.Up); err != nil {
		return nil, err
	}
	r := &Result{Timeline: &Timeline{}}
	target := Target{Cell: cluster.Cell, Cluster: cluster.Name, Node: o.Node}
	err = turn(ctx, o, target, r)
	var statusErr error
	if r.Report, statusErr = o.Fleet.Status(context.WithoutCancel(ctx)); statusErr == nil {
		r.Figures.ResidentBytes = r.Report.ResidentBytes
	}
	return r, errors.Join(err, statusErr)
}

// refuseKept keeps a demonstration from going on where an earlier fleet was,
// with its faults still in it.
func refuseKept(ctx context.Context, f *local.Fleet) error {
	report, err := f.Status(ctx)
	if err != nil {
		return err
	}
	if report.State == local.StateKept || report.State == local.StateKilled {
		return fmt.Errorf("the state of an earlier fleet is kept in %s: remove it with `%s` for a demonstration from the start, or go on with it by `%s`",
			f.Layout.Dir, f.DownCommand(), f.UpCommand())
	}
	return nil
}

// End stops the fleet, also when ctx is over, and notes how long it took. With
// keep its logs and data stay, for somebody to look at.
func End(ctx context.Context, f *local.Fleet, r *Result, keep bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	down, err := f.Down(ctx, keep)
	if r != nil {
		r.Figures.DownSeconds = down.Took.Seconds()
	}
	return err
}

// turn goes around the loop once and notes it in r.
func turn(ctx context.Context, o RunOptions, target Target, r *Result) error {
	started, err := o.Fleet.Status(ctx)
	if err != nil {
		return err
	}
	r.Figures.ReadySeconds = time.Since(started.Since).Seconds()
	configs, err := o.Fleet.Configs()
	if err != nil {
		return err
	}
	world, err := NewFleet(FleetOptions{
		Clusters: configs, Hub: layout.Hub().Name,
		MachineNamespace: bootstrap.Namespace, MessagesURL: o.Fleet.MessagesURL(),
	})
	if err != nil {
		return err
	}
	if err := settle(ctx, world, target); err != nil {
		return err
	}
	injector, err := fault.New(configs)
	if err != nil {
		return err
	}
	target.Since = time.Now()
	injected, err := injector.Inject(ctx, fault.Fault{Kind: fault.NodeStop, Node: target.Node})
	if err != nil {
		return err
	}
	say(o.Text, Step{Name: "fault injected", Seconds: new(float64), Detail: injected.String()})
	r.Timeline, err = Watch(ctx, Options{
		World: world, Target: target, Fault: injected.String(), Timeout: o.Timeout,
		Seen: func(s Step) { say(o.Text, s) },
	})
	r.Figures.RepairSeconds, _ = r.Seconds("verified")
	return err
}

// settle waits until both centrals hear of every cell and the target is well,
// so that what is seen afterwards comes from the fault.
func settle(ctx context.Context, world *Fleet, t Target) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		why := unsettled(ctx, world, t)
		if why == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a whole view before breaking anything: %s: %w", why, ErrNotClosed)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func unsettled(ctx context.Context, world *Fleet, t Target) string {
	got, want, err := world.Complete(ctx)
	if err != nil {
		return err.Error()
	}
	if want == 0 || got < want {
		return fmt.Sprintf("%d of %d cells are seen by both centrals", got, want)
	}
	having, _, err := world.Unhealthy(ctx, TierCentral, t)
	if err != nil {
		return err.Error()
	}
	if len(having) > 0 {
		return fmt.Sprintf("%s is unhealthy at %v", t.Node, having)
	}
	return ""
}

func say(w io.Writer, s Step) {
	// A terminal that is gone must not end the watch.
	_, _ = fmt.Fprintf(w, "%6.1fs  %-22s %s\n", *s.Seconds, s.Name, s.Detail)
}

// WriteJSON writes the timeline and the figures.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteFigures writes the figures for a person.
func (r *Result) WriteFigures(w io.Writer) {
	f := r.Figures
	_, _ = fmt.Fprintf(w, "\nall tiers ready in %.0f s · %.1f GiB resident", f.ReadySeconds, float64(f.ResidentBytes)/(1<<30))
	if f.RepairSeconds > 0 {
		_, _ = fmt.Fprintf(w, " · fault to verified repair in %.0f s", f.RepairSeconds)
	}
	if f.DownSeconds > 0 {
		_, _ = fmt.Fprintf(w, " · down in %.1f s", f.DownSeconds)
	}
	_, _ = fmt.Fprintln(w)
}
