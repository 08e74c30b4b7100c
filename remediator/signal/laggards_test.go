package signal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C17: however many clusters hang, those that answer are read, a few rounds later and from then on.
func TestClustersThatHangStarveNoOther(t *testing.T) {
	var wanted []want
	for i := range 5 * parallel {
		wanted = append(wanted, want{cell: "asia-1", cluster: fmt.Sprintf("hangs-%03d", i)})
	}
	wanted = append(wanted, want{cell: "asia-1", cluster: "shop"})
	r := &Reader{}
	round := func() policy.LiveCluster {
		// As the deadlines of Live: of the whole, and of each, half of it.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		all := r.readAll(ctx, wanted, func(w want) policy.LiveCluster {
			out := policy.LiveCluster{Cell: w.cell, Cluster: w.cluster}
			each, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if w.cluster == "shop" && each.Err() == nil {
				return out
			}
			<-each.Done()
			out.Err = each.Err().Error()
			return out
		})
		require.Len(t, all, len(wanted))
		require.Equal(t, "shop", all[len(all)-1].Cluster, "the order of the answers is that of the questions")
		return all[len(all)-1]
	}
	rounds := 1
	for round().Err != "" {
		rounds++
		require.LessOrEqual(t, rounds, 4, "each round finds twice as many that hang as are read at once")
	}
	require.Greater(t, rounds, 1, "nobody knew who hangs")
	for range 5 {
		require.Empty(t, round().Err, "and so it stays")
	}
}
