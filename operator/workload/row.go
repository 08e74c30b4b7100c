package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// waiter is a server of the row and what of its change would restart it.
type waiter struct {
	server string
	change Objects
}

// changeRow gives each server of the row what it may have now. Files reach all of them,
// and one that serves nobody has nothing to lose. Of those that serve one is restarted,
// when every other is well: the first of them tries a change for all, and
// while one is lost, whatever the reason, nothing more is restarted. One that cannot be
// looked at or written counts as lost, and keeps no file from the others.
func (t *turner) changeRow(ctx context.Context, servers map[string]Objects) error {
	var idle, serving []waiter
	var failed []error
	changed := ""
	for _, server := range t.Row {
		later, passed, err := t.changeFiles(ctx, server, servers[server])
		switch {
		case err != nil:
			t.failed[server], failed = err, append(failed, err)
		case passed:
			changed = server
		case len(later) > 0 && t.seen.Serving[server] == "":
			idle = append(idle, waiter{server, later})
		case len(later) > 0:
			serving = append(serving, waiter{server, later})
		}
	}
	mended, err := t.changeIdle(ctx, idle)
	failed = append(failed, err, t.changeOne(ctx, serving, cmp.Or(changed, mended)))
	return errors.Join(failed...)
}

// changeFiles gives a server what does not restart it, and gives back the rest. All of
// it may pass because a person says so; because the server is new, or a person stopped
// it, there is nothing to restart.
func (t *turner) changeFiles(ctx context.Context, server string, wanted Objects) (later Objects, passed bool, err error) {
	now, err := t.pending(ctx, wanted)
	if err != nil {
		return nil, false, err
	}
	if t.seen.Part(server).Desired > 0 && slices.ContainsFunc(now, restarts) {
		now, later = t.withoutRestart(server, now)
		if passed = t.agreed(server, later); passed {
			now, later = append(now, later...), nil
		}
	}
	return later, passed, t.write(ctx, now)
}

// changeOne restarts one of the servers that wait, unless another was changed just now,
// and holds the others.
func (t *turner) changeOne(ctx context.Context, waiting []waiter, changed string) error {
	if len(waiting) == 0 {
		return nil
	}
	var why Lack
	if changed == "" {
		var next int
		if next, why = t.next(ctx, waiting); why.Nothing() {
			changed = waiting[next].server
			if err := t.write(ctx, waiting[next].change); err != nil {
				return err
			}
			waiting = slices.Delete(waiting, next, next+1)
		}
	}
	if changed != "" {
		why = Lack{HeldChanged, changed + " was changed just now"}
	}
	t.holdRow(waiting, why)
	return nil
}

// changeIdle changes the servers that serve nobody, because that may be what mends them,
// and names one of those. A server that has not come up since its change says that
// the change is what ends servers: then the others must come back as they were.
func (t *turner) changeIdle(ctx context.Context, idle []waiter) (changed string, err error) {
	if len(idle) == 0 {
		return "", nil
	}
	for _, server := range t.Row {
		waits := slices.ContainsFunc(idle, func(w waiter) bool { return w.server == server })
		if lack := t.unready(server); !waits && t.seen.Unproven[server] && !lack.Nothing() {
			t.holdRow(idle, Lack{lack.Reason, fmt.Sprintf("%s has not come up since it was changed: %s", server, lack.What)})
			return "", nil
		}
	}
	var failed []error
	for _, w := range idle {
		if err := t.write(ctx, w.change); err != nil {
			t.failed[w.server], failed = err, append(failed, err)
		} else {
			changed = cmp.Or(changed, w.server)
		}
	}
	return changed, errors.Join(failed...)
}

// next is which of those that wait, and serve, is to be restarted, or why none is. It is
// the first one when all of the row are well, and one that is not when it is the only
// one: that may be what mends it. When more are not, it may be the observer.
func (t *turner) next(ctx context.Context, waiting []waiter) (int, Lack) {
	var ill []string
	var why Lack
	for _, server := range t.Row {
		if err := t.failed[server]; err != nil {
			return 0, Lack{HeldUnknown, fmt.Sprintf("%s could not be looked at or changed: %v", server, err)}
		}
		lack := t.unready(server)
		if lack.Nothing() {
			lack = t.RowLacks(ctx, server, t.seen)
		}
		switch {
		case lack.Nothing():
			continue
		case lack.Reason == HeldUnknown:
			return 0, lack
		case len(ill) == 0:
			why = lack
		}
		ill = append(ill, server)
	}
	switch i := slices.IndexFunc(waiting, func(w waiter) bool { return len(ill) == 1 && w.server == ill[0] }); {
	case len(ill) == 0:
		return 0, Lack{}
	case i >= 0:
		return i, Lack{}
	}
	return 0, why
}

// holdRow tells of all servers that wait, in one note.
func (t *turner) holdRow(waiting []waiter, why Lack) {
	for i, w := range waiting {
		switch {
		case i > 0:
			t.out.Holds = append(t.out.Holds, Hold{Server: w.server, Reason: why.Reason})
		case len(waiting) == 1:
			t.hold(w.server, why, w.change, "%s is not restarted: %s. To restart it all the same", w.server, why.What)
		default:
			t.hold(w.server, why, w.change, "%s and %d after it are not restarted: %s. To restart %[1]s all the same", w.server, len(waiting)-1, why.What)
		}
	}
}
