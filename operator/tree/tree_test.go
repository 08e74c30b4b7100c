package tree_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/tree"
	"github.com/pharos-fleet/pharos/rules"
)

// read makes a tree of documents.
func read(t testing.TB, documents ...string) (*tree.Tree, error) {
	t.Helper()
	dir := lay(t, map[string]string{"f.yaml": strings.Join(documents, "---\n")})
	fleet, err := tree.Read(filepath.Join(dir, "f.yaml"), "")
	require.NoError(t, err)
	return tree.New(fleet, "pharos-system")
}

func rendered(t testing.TB, made *tree.Tree, err error) map[string][]byte {
	t.Helper()
	require.NoError(t, err)
	files := map[string][]byte{}
	require.NoError(t, made.Each(func(f tree.File) error {
		require.NotContains(t, files, f.Path)
		files[f.Path] = f.Content
		return nil
	}))
	return files
}

// byServer sorts rendered files by the folder that they are in.
func byServer(files map[string][]byte) map[string]promcfg.Files {
	out := map[string]promcfg.Files{}
	for name, content := range files {
		dir, file := path.Split(name)
		if out[dir] == nil {
			out[dir] = promcfg.Files{}
		}
		out[dir][file] = content
	}
	return out
}

const robot = `  alerting:
    heartbeat: {secretName: deadman}
    dingTalk:
      - name: oncall
        secretName: robot
`

func TestEverythingRenderedIsAccepted(t *testing.T) {
	made, err := read(t, federation+robot,
		cellYAML("asia-1", "asia", "a:9090"), cellYAML("asia-2", "asia", `b:9090", "b:9091", "b:9092", "b:9093`)+"    shards: 2\n    replicas: 2\n", cellYAML("europe-1", "europe", "e:9090"))
	files := rendered(t, made, err)
	var folders []string
	for dir, content := range byServer(files) {
		if dir == "" {
			require.Len(t, content, 1)
			require.Contains(t, content, tree.PlanFile)
			continue
		}
		folders = append(folders, dir)
		switch {
		case strings.HasSuffix(dir, "/manifests/"):
			requireObjects(t, content)
		case content["alertmanager.yml"] != nil:
			promcfgtest.Write(t, t.TempDir(), content)
			file := filepath.Join(t.TempDir(), "alertmanager.yml")
			require.NoError(t, os.WriteFile(file, content["alertmanager.yml"], 0o600))
			out, err := exec.Command(testkit.Binary(t, "amtool"), "check-config", file).CombinedOutput()
			require.NoError(t, err, "amtool check-config:\n%s", out)
		case content["notify.yaml"] == nil:
			promcfgtest.Check(t, content)
			requireSyntax(t, content)
		}
	}
	slices.Sort(folders)
	require.Equal(t, []string{
		"cells/asia-1/files/edge/", "cells/asia-1/manifests/",
		"cells/asia-2/files/edge-0-b/", "cells/asia-2/files/edge-1-a/", "cells/asia-2/files/edge-1-b/", "cells/asia-2/files/edge/", "cells/asia-2/manifests/",
		"cells/europe-1/files/edge/", "cells/europe-1/manifests/",
		"hub/files/alertmanager/", "hub/files/cascade-asia-0/", "hub/files/cascade-europe-0/", "hub/files/central-a/", "hub/files/central-b/", "hub/files/notify/",
		"hub/manifests/",
	}, folders)
	require.Contains(t, string(files["hub/files/cascade-asia-0/targets-0-of-1.yaml"]), "b:9090")
	require.NotContains(t, string(files["hub/files/cascade-europe-0/targets-0-of-1.yaml"]), "b:9090")
	require.Contains(t, string(files["hub/files/alertmanager/alertmanager.yml"]), "http://notify.pharos-system.svc:9095/alertmanager/oncall")
	require.Empty(t, made.Warnings)
}

// requireSyntax checks what lies in a repository as README says, where no service
// account is beside it.
func requireSyntax(t *testing.T, content promcfg.Files) {
	t.Helper()
	dir := t.TempDir()
	promcfgtest.Write(t, dir, content)
	for _, args := range [][]string{{"check", "config", "--syntax-only", filepath.Join(dir, promcfg.ConfigFile)}, {"check", "rules", filepath.Join(dir, rules.TopologyFileName)}} {
		out, err := exec.Command(testkit.Binary(t, "promtool"), args...).CombinedOutput()
		require.NoError(t, err, "promtool %v:\n%s", args, out)
	}
}

// requireObjects checks that documents are objects that belong to nobody, and
// that what a server is given is what stands beside them.
func requireObjects(t *testing.T, files promcfg.Files) {
	t.Helper()
	for name, raw := range files {
		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			var o unstructured.Unstructured
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o.Object), name)
			require.NotEmpty(t, o.GetKind(), name)
			require.Empty(t, o.GetOwnerReferences(), name)
			if o.GetKind() == "Cell" {
				require.Equal(t, name, "cell."+o.GetName()+".yaml")
				require.Empty(t, o.GetNamespace(), name)
				continue
			}
			require.Equal(t, name, o.GetName()+".yaml")
			require.Equal(t, "pharos-system", o.GetNamespace(), name)
		}
	}
}

// The objects hold the very files that lie beside them.
func TestFilesAreThoseOfTheObjects(t *testing.T) {
	made, err := read(t, federation, cellYAML("asia-1", "asia", "a:9090"))
	files := rendered(t, made, err)
	for server, content := range byServer(files) {
		dir, name, isServer := strings.Cut(strings.TrimSuffix(server, "/"), "/files/")
		if !isServer {
			continue
		}
		held := map[string]string{}
		for path, raw := range files {
			if !strings.HasPrefix(path, dir+"/manifests/"+name+".") {
				continue
			}
			for document := range strings.SplitSeq(string(raw), "\n---\n") {
				var o struct {
					Kind string
					Data map[string]string
				}
				require.NoError(t, yaml.Unmarshal([]byte(document), &o))
				if o.Kind == "ConfigMap" {
					maps.Copy(held, o.Data)
				}
			}
		}
		require.Len(t, held, len(content), server)
		for file, raw := range content {
			require.Equal(t, string(raw), held[file])
		}
	}
}

func TestTheSameFleetGivesTheSameBytes(t *testing.T) {
	cells := []string{cellYAML("asia-2", "asia", "b:9090"), cellYAML("asia-1", "asia", "a:9090"), cellYAML("europe-1", "europe", "e:9090")}
	made, err := read(t, append([]string{federation}, cells...)...)
	first := rendered(t, made, err)
	slices.Reverse(cells)
	made, err = read(t, append(cells, federation)...)
	require.Equal(t, first, rendered(t, made, err))
}

func TestStrangeNamesStayWhole(t *testing.T) {
	for _, region := range []string{`a"b`, "a,b", "中国", "{{ .Value }}", "{{ $labels.x }}", "$HOME", `back\\slash`, "no"} {
		t.Run(region, func(t *testing.T) {
			quotedRegion, err := yaml.Marshal(region)
			require.NoError(t, err)
			document := strings.Replace(cellYAML("c.d-1", "asia", "a:9090"), "region: asia-east\n", "region: "+string(quotedRegion), 1)
			made, err := read(t, federation, document)
			for dir, files := range byServer(rendered(t, made, err)) {
				if strings.Contains(dir, "/files/edge") || strings.Contains(dir, "/files/c") {
					promcfgtest.Check(t, files)
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	a := cellYAML("a", "asia", "a:9090")
	for name, tc := range map[string]struct {
		documents []string
		want      []string
	}{
		"a cell twice":            {[]string{federation, a, a}, []string{"f.yaml:21: Cell \"a\" is in ", "f.yaml:10 already"}},
		"an unknown geography":    {[]string{federation, cellYAML("a", "atlantis", "a:9090")}, []string{`f.yaml:10: Cell "a": spec.geography: "atlantis" is none of Federation "fleet"`, `["asia" "europe"]`}},
		"an address twice":        {[]string{federation, a, cellYAML("b", "asia", "a:9090")}, []string{`f.yaml:21: Cell "b": endpoint a:9090 of the edge belongs to Cell "a"`}},
		"an address that is none": {[]string{federation, cellYAML("a", "asia", "http://a")}, []string{`f.yaml:10: Cell "a": endpoint of the edge`}},
		"a geography renamed": {
			[]string{strings.Replace(federation, "name: asia", "name: apac", 1), a},
			[]string{`f.yaml:10: Cell "a": spec.geography: "asia" is none of Federation "fleet"`, `["apac" "europe"]`},
		},
		"an edge too slow to be fresh": {
			[]string{federation, a + "    mode: External\n    intervalSeconds: 60\n"},
			[]string{`f.yaml:10: Cell "a": spec.edge.intervalSeconds: a sample may be 1m50s old when it has come up, and counts as stale after 1m30s`},
		},
		"cluster IPs": {
			[]string{federation + "  network:\n    serviceAddressing: ClusterIP\n", a},
			[]string{"f.yaml:1: spec.network.serviceAddressing: cluster IPs are not known"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, tc.documents...)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	made, err := read(t, told)
	require.NotEmpty(t, rendered(t, made, err), "an empty fleet is rendered")
	require.Len(t, made.Warnings, 1)
	require.Contains(t, made.Warnings[0], `Federation "fleet" has no cell`)

	blind := strings.Replace(cellYAML("a", "asia", "x"), "  edge:\n    endpoints: [\"x\"]\n", "", 1)
	made, err = read(t, told, blind)
	files := rendered(t, made, err)
	require.Contains(t, made.Warnings[0], `Cell "a" has no spec.edge.endpoints`)
	require.Contains(t, string(files["hub/files/central-a/topology.rules.yaml"]), "cell: a", "a cell that nobody reads is expected")

	made, err = read(t, federation, cellYAML("a", "asia", "a:9090"))
	require.NoError(t, err)
	require.Len(t, made.Warnings, 2)
	require.Contains(t, made.Warnings[0], `f.yaml:1: Federation "fleet" has no spec.alerting.dingTalk: nobody is told of any alert`)
	require.Contains(t, made.Warnings[1], `f.yaml:1: Federation "fleet" has no spec.alerting.heartbeat: nobody notices when alerts cannot be sent`)
}

// With a status, a plan goes on where it is; without, cells are placed by name.
func TestShards(t *testing.T) {
	small := strings.Replace(federation, "- name: asia\n", "- name: asia\n      maxSeriesPerShard: 1000\n", 1)
	var cells []string
	for i := range 4 {
		cells = append(cells, fmt.Sprintf("%s  capacity:\n    pools:\n    - name: clusters\n      limit: %d\n", cellYAML(fmt.Sprintf("asia-%d", i), "asia", fmt.Sprintf("a%d:9090", i)), 5))
	}
	made, err := read(t, append([]string{small}, cells...)...)
	files := rendered(t, made, err)
	cascades, number := made.Servers()
	require.Equal(t, 4, number)
	require.Equal(t, cascades, countOf(files, "/files/cascade-"))
	reading := 0
	for name, content := range files {
		if strings.HasSuffix(name, "targets-0-of-1.yaml") && strings.Contains(name, "cascade-asia") {
			reading += strings.Count(string(content), "- a")
		}
	}
	require.Equal(t, 4, reading, "each cell is read once")

	status := `status:
  geographies:
    - name: asia
      cells:
        - name: asia-0
          shard: 7
          movingTo: 3
`
	made, err = read(t, federation+status, cells[0])
	files = rendered(t, made, err)
	for _, shard := range []string{"7", "3"} {
		require.Contains(t, string(files["hub/files/cascade-asia-"+shard+"/targets-0-of-1.yaml"]), "a0:9090", "both shards read a moving cell")
	}
	require.NotContains(t, slices.Collect(maps.Keys(files)), "hub/files/cascade-asia-0/prometheus.yml")
}

func countOf(files map[string][]byte, part string) int {
	folders := map[string]bool{}
	for name := range files {
		if strings.Contains(name, part) {
			folders[path.Dir(name)] = true
		}
	}
	return len(folders)
}
