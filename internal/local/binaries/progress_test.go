package binaries

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		p.expect(2, "/cache")
		done := p.begin("etcd v1")
		time.Sleep(31 * time.Second)
		done(nil)
		done = p.begin("kwok v2")
		time.Sleep(2 * time.Second)
		done(errors.New("broken"))
		require.Empty(t, cmp.Diff(`building 2 server binaries into /cache (all of them, for the first time: about 20 minutes on two cores)
building 1 of 2: etcd v1
building 1 of 2: etcd v1, 15s (15s so far)
building 1 of 2: etcd v1, 30s (30s so far)
built 1 of 2: etcd v1 in 31s (31s so far)
building 2 of 2: kwok v2
gave up 2 of 2: kwok v2 in 2s (33s so far)
`, out.String()))
	})
}

func TestProgressOnATerminalRenewsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		p.terminal = true
		p.total = 1
		done := p.begin("etcd v1")
		time.Sleep(2500 * time.Millisecond)
		done(nil)
		require.Empty(t, cmp.Diff(eraseLine+"building 1 of 1: etcd v1"+
			eraseLine+"building 1 of 1: etcd v1, 1s (1s so far)"+
			eraseLine+"building 1 of 1: etcd v1, 2s (2s so far)"+
			eraseLine+eraseLine+"built 1 of 1: etcd v1 in 3s (3s so far)\n", out.String()))
	})
}
