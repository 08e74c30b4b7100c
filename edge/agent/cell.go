package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// followCell finds out, until ctx ends, whether the cell's own API server
// answers. The watches of Clusters and Machines do not tell: they wait, and what
// they know stays as it was last seen.
func (a *Agent) followCell(ctx context.Context) {
	was := false
	for {
		err := a.probeCell(ctx)
		if ctx.Err() != nil {
			return
		}
		switch is := a.cellUp(a.now()); {
		case is && !was:
			a.log.Info("cell answers")
		case !is && was:
			a.log.Error("cell does not answer; its Clusters and Machines are as last seen, and no business cluster counts as up", slog.Any("error", err))
		}
		was = a.cellUp(a.now())
		if !sleep(ctx, probeInterval) {
			return
		}
	}
}

// probeCell asks for one Cluster, which takes the API server and its etcd.
func (a *Agent) probeCell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := a.resources.Get().Resource("clusters").Param("limit", "1").Do(ctx).Error(); err != nil {
		return fmt.Errorf("listing Clusters: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cellGood = a.now()
	return nil
}

// cellUp says whether what is known of the cell is true now.
func (a *Agent) cellUp(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Sub(a.cellGood) <= nodesFor
}
