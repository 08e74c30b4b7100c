package snapshot_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

func TestCompressedSnapshots(t *testing.T) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	_, err = z.Write([]byte(byHand(t)))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	s, err := snapshot.Read(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	plain, err := snapshot.Read(strings.NewReader(byHand(t)))
	require.NoError(t, err)
	require.Equal(t, plain, s)
	_, err = snapshot.Read(bytes.NewReader(b.Bytes()[:b.Len()/2]))
	require.ErrorContains(t, err, "it is compressed, and cannot be read to its end")
}

func TestWhy(t *testing.T) {
	s, err := snapshot.Read(strings.NewReader(byHand(t)))
	require.NoError(t, err)
	why := func(machine string) string {
		var b strings.Builder
		require.NoError(t, s.Why(&b, machine))
		return b.String()
	}
	said := why("shop-03")
	require.Contains(t, said, "Act, because of Unhealthy, by policy workers: node shop-03 is Ready=Unknown since 2026-03-01T11:50:00Z")
	require.Contains(t, said, "What is done is Reboot, recorded as Remediation shop-03-")
	require.Contains(t, said, "- Central central-b heard of the cell 5s before, and lists the node as unhealthy (Unknown), 5s before.")
	require.Contains(t, said, "- Its kubelet renewed its Lease 11m0s before.")
	require.Contains(t, why("asia-1/shop-02"), "Nothing is decided of it")

	repair := s.Decide().Decisions[0]
	s.Remediations = []api.Remediation{{ObjectMeta: metav1.ObjectMeta{Name: repair.Name}, Spec: repair.Spec}}
	require.NotContains(t, why("shop-03"), "in the folder of --record")
	s.Remediations[0].Spec.Snapshot = "20260301T115500.000Z.snapshot.json.zst"
	require.Contains(t, why("shop-03"), "It was decided on 20260301T115500.000Z.snapshot.json.zst in the folder of --record.")
	s.Remediations = nil

	s.Centrals[1].Err = "connection refused"
	said = why("shop-03")
	require.Contains(t, said, "Hold, because of")
	require.Contains(t, said, "- Central central-b did not answer: connection refused")
	s.Cells = append(s.Cells, s.Cells[0])
	s.Cells[1].Name = "asia-2"
	require.ErrorContains(t, s.Why(&strings.Builder{}, "shop-03"), "say which of asia-1/shop-03, asia-2/shop-03")
	require.ErrorContains(t, s.Why(&strings.Builder{}, "asia-3/shop-03"), `there is no machine "asia-3/shop-03"`)
}
