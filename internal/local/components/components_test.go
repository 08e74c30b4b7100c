package components_test

import (
	"crypto/x509"
	"encoding/csv"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/components"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

var servers = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "prometheus", "alertmanager", "kwok"}

func newPlan(t *testing.T, dir string) (layout.Layout, supervisor.Plan) {
	t.Helper()
	l, err := layout.New(3, dir)
	require.NoError(t, err)
	binaries := map[string]string{}
	for _, name := range servers {
		binaries[name] = "/cache/" + name
	}
	return l, components.Plan(components.Options{
		Layout: l, Binaries: binaries, PharosImage: "example.org/pharos:v1",
		Robot: components.RobotFiles{AccessToken: dir + "/token", Secret: dir + "/secret"},
	})
}

func TestPlanIsWhole(t *testing.T) {
	l, plan := newPlan(t, "/some where/fleet")
	require.NoError(t, plan.Validate())
	var names []string
	for _, c := range plan.Components {
		names = append(names, c.Name)
		require.True(t, filepath.IsAbs(c.Path), "%s: %q", c.Name, c.Path)
		require.Contains(t, c.Env, layout.FleetEnv+"=/some where/fleet", c.Name)
		require.NotEmpty(t, c.Ready.URL, c.Name)
		require.Positive(t, c.StopGraceMillis, c.Name)
	}
	require.Len(t, names, 1+5*3+2+3+2)
	for _, at := range l.Listeners() {
		require.Contains(t, names, at.Component)
	}
}

// kwok reads the value of --config as a line of CSV.
func TestPathsWithCommasAndQuotes(t *testing.T) {
	for _, dir := range []string{"/plain", "/with space", "/a,b", `/a"b`, `/"a",b/c`} {
		l, plan := newPlan(t, dir)
		seen := 0
		for _, c := range plan.Components {
			for _, arg := range c.Args {
				value, is := strings.CutPrefix(arg, "--config=")
				if !is {
					continue
				}
				seen++
				fields, err := csv.NewReader(strings.NewReader(value)).Read()
				require.NoError(t, err, dir)
				require.Equal(t, []string{l.StagesFile()}, fields)
			}
		}
		require.Equal(t, 2, seen)
	}
}

func TestNothingIsBoundBeyondLoopback(t *testing.T) {
	_, plan := newPlan(t, "/fleet")
	address := regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	bound := regexp.MustCompile(`^--(listen|bind-address|server-address|listen-client-urls|listen-peer-urls)=`)
	for _, c := range plan.Components {
		binds := false
		for _, arg := range c.Args {
			binds = binds || bound.MatchString(arg)
			for _, found := range address.FindAllString(arg, -1) {
				require.True(t, netip.MustParseAddr(found).IsLoopback(), "%s: %s", c.Name, arg)
			}
		}
		require.True(t, binds, "%s says where it listens", c.Name)
	}
}

func TestEndFitsIntoTenSeconds(t *testing.T) {
	_, plan := newPlan(t, "/fleet")
	longest := map[int]int{}
	for _, c := range plan.Components {
		longest[c.StopPhase] = max(longest[c.StopPhase], c.StopGraceMillis)
	}
	sum := 0
	for _, millis := range longest {
		sum += millis
	}
	require.Less(t, sum, 8000)
}

// TestEveryFileIsMade finds each file that a component is told to read.
func TestEveryFileIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	l, plan := newPlan(t, dir)
	require.NoError(t, components.WriteCredentials(l, time.Now()))
	pki := filepath.Join(dir, "pki")
	for _, c := range plan.Components {
		for _, arg := range append(c.Args, "="+c.Ready.CAFile, "="+c.Ready.CertFile, "="+c.Ready.KeyFile) {
			_, value, _ := strings.Cut(arg, "=")
			if !strings.HasPrefix(value, pki) {
				continue
			}
			info, err := os.Stat(value)
			require.NoError(t, err, "%s: %s", c.Name, arg)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), value)
		}
	}
}

func TestCredentials(t *testing.T) {
	l, _ := newPlan(t, t.TempDir())
	require.NoError(t, components.WriteCredentials(l, time.Now()))
	for _, c := range layout.Clusters() {
		config, err := kube.Config(l.Kubeconfig(c))
		require.NoError(t, err)
		require.Equal(t, l.APIServerURL(c), config.Host)
		block, _ := pem.Decode(config.CertData)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.Equal(t, []string{"system:masters"}, cert.Subject.Organization)
		_, err = os.Stat(filepath.Join(l.PKIDir(c.Name), "ca.key"))
		require.ErrorIs(t, err, os.ErrNotExist, "the key of the authority is not kept")
	}
}

func TestStagesAreYAML(t *testing.T) {
	for doc := range strings.SplitSeq(string(components.Stages), "\n---\n") {
		var stage struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &stage))
		require.Equal(t, "Stage", stage.Kind)
		require.NotEmpty(t, stage.Metadata.Name)
	}
}
