package layout_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/layout"
)

func newLayout(t *testing.T, instance int) layout.Layout {
	t.Helper()
	l, err := layout.New(instance, "/state")
	require.NoError(t, err)
	return l
}

func TestNewRefuses(t *testing.T) {
	for _, instance := range []int{-1, 10} {
		_, err := layout.New(instance, "/state")
		require.ErrorContains(t, err, "use 0 to 9")
	}
	_, err := layout.New(0, "state")
	require.ErrorContains(t, err, "not absolute")
}

func TestAddressesOfDocument(t *testing.T) {
	l := newLayout(t, 2)
	shop, err := layout.ClusterByName("shop")
	require.NoError(t, err)
	europe, err := layout.ClusterByName("europe-1")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:16200", l.EtcdAddress())
	require.Equal(t, "127.0.0.1:16213", l.APIServerAddress(shop))
	require.Equal(t, "127.0.0.1:16243", l.KwokAddress(shop))
	require.Equal(t, "127.0.0.1:16252", l.KubeletAddress(europe))
	require.Equal(t, "127.66.3.0/24", l.PodCIDR(europe).String())
	require.Equal(t, "127.66.160.0/20", l.ServiceCIDR(europe).String())
	require.Equal(t, "127.66.176.0/20", l.ServiceCIDR(shop).String())
}

func TestInstancesShareNothing(t *testing.T) {
	seen := map[string]string{}
	var prefixes []netip.Prefix
	for instance := 0; instance <= layout.MaxInstance; instance++ {
		l := newLayout(t, instance)
		for _, at := range l.Listeners() {
			require.NotContains(t, seen, at.Address, "instance %d, %s", instance, at.Component)
			seen[at.Address] = at.Component
			require.True(t, netip.MustParseAddrPort(at.Address).Addr().IsLoopback(), at.Address)
		}
		for _, c := range layout.Clusters() {
			prefixes = append(prefixes, l.ServiceCIDR(c))
		}
		for _, c := range layout.MetaClusters() {
			prefixes = append(prefixes, l.PodCIDR(c))
		}
	}
	for i, a := range prefixes {
		require.True(t, a.Addr().IsLoopback(), a)
		require.Equal(t, a, a.Masked())
		for _, b := range prefixes[i+1:] {
			require.False(t, a.Overlaps(b), "%s and %s", a, b)
		}
	}
}

func TestNodes(t *testing.T) {
	machines := map[string]bool{}
	for _, c := range layout.BusinessClusters() {
		racks := map[string]int{}
		for _, n := range c.Nodes() {
			racks[n.Zone+"/"+n.Rack]++
			for _, id := range []string{n.Name, n.Address, n.ProviderID, n.HardwareID} {
				require.False(t, machines[id], "%s is there twice", id)
				machines[id] = true
			}
			of, err := layout.ClusterOfNode(n.Name)
			require.NoError(t, err)
			require.Equal(t, c.Name, of.Name)
		}
		require.Equal(t, map[string]int{"zone-a/rack-1": 5, "zone-a/rack-2": 5, "zone-b/rack-3": 5, "zone-b/rack-4": 5}, racks)
	}
	require.Empty(t, layout.Hub().Nodes())
	_, err := layout.ClusterOfNode("shop-node-20")
	require.ErrorContains(t, err, `no node "shop-node-20"`)
	_, err = layout.ClusterByName("shops")
	require.ErrorContains(t, err, "[hub asia-1 europe-1 shop bank]")
}

func TestHostedBy(t *testing.T) {
	for _, cell := range layout.Cells() {
		hosted := layout.HostedBy(cell)
		require.Len(t, hosted, 1)
		require.Equal(t, cell.Name, hosted[0].Cell)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/some where/state")
	dir, err := layout.DefaultDir(3)
	require.NoError(t, err)
	require.Equal(t, "/some where/state/pharos/fleet-3", dir)

	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/a b")
	dir, err = layout.DefaultDir(0)
	require.NoError(t, err)
	require.Equal(t, "/home/a b/.local/state/pharos/fleet-0", dir)

	t.Setenv("HOME", "")
	_, err = layout.DefaultDir(0)
	require.ErrorContains(t, err, "--state-dir")
}

func TestFilesAreInTheStateFolder(t *testing.T) {
	l := newLayout(t, 0)
	hub := layout.Hub()
	for _, path := range []string{
		l.FleetFile(), l.LockFile(), l.PlanFile(), l.PIDFile(), l.StatusFile(), l.EventsFile(), l.LogFile("x"), l.Kubeconfig(hub),
		l.PKIDir("hub"), l.EtcdDir(), l.PodsDir(hub), l.DingTalkDir(), l.Pharos(), l.StagesFile(), l.HomeDir(),
	} {
		rel, err := filepath.Rel("/state", path)
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(rel), path)
	}
}
