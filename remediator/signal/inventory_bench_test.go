package signal_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// BenchmarkInventory is what a round costs to have the inventories of a hundred cells
// of a thousand machines, with the API server in the same process: listed in every
// round, or watched. Of the latter it says what is held for each machine, and what
// share of one core the watches take while nothing changes.
func BenchmarkInventory(b *testing.B) {
	const cells, machines = 100, 1000
	s := &scripted{watching: 4 * time.Second}
	var names []string
	for i := range machines {
		names = append(names, fmt.Sprintf("machine-%04d", i))
	}
	s.set("10", names...)
	r, secrets := s.cells(b, cells, nil)
	b.Run("listed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var group errgroup.Group
			group.SetLimit(16)
			for _, secret := range secrets {
				group.Go(func() error {
					got, err := r.ListAnew(b.Context(), secret)
					if err == nil && got != machines {
						err = fmt.Errorf("%d machines", got)
					}
					return err
				})
			}
			require.NoError(b, group.Wait())
		}
	})
	b.Run("watched", func(b *testing.B) {
		b.ReportAllocs()
		before := held()
		whole := func() {
			got, err := r.Cells(b.Context())
			require.NoError(b, err)
			for _, c := range got {
				require.Empty(b, c.Err)
				require.Len(b, c.Machines, machines)
			}
		}
		require.Eventually(b, func() bool {
			got, err := r.Cells(b.Context())
			dark, short := unknown(got, machines)
			return err == nil && short == nil && len(dark) == 0
		}, time.Minute, time.Second)
		bytes := held() - before
		for b.Loop() {
			whole()
		}
		const idle = 12 * time.Second
		used := processor()
		time.Sleep(idle)
		used = processor() - used
		b.ReportMetric(float64(bytes)/(cells*machines), "held-B/machine")
		b.ReportMetric(100*used.Seconds()/idle.Seconds(), "idle-%core")
	})
}

// held is the memory that is in use after a collection.
func held() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// processor is the time that this process has used of it.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
