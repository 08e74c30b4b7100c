package archtest

import "slices"

// room is a top folder of the source tree, or a folder that has rules of its own.
type room struct {
	dir string
	// imports are the rooms of our module that it may import beside itself.
	imports []string
	// libraries, when given, are the only foreign packages that it may import
	// beside the standard library: the rest of the world is out of bounds.
	libraries []string
	closed    bool // libraries is meant, even when empty
}

// rooms returns the layout of docs/design, most special folder first. A folder
// that is not in it may not hold Go code.
func rooms() []room {
	return []room{
		{dir: "api", closed: true, libraries: []string{"k8s.io/apimachinery"}},

		{dir: "edge", imports: []string{"api", "rules", "internal"}},
		{dir: "cascade", imports: []string{"api", "rules", "internal"}},
		{dir: "central", imports: []string{"api", "rules", "internal"}},

		{dir: "rules", closed: true, libraries: []string{
			"go.yaml.in/yaml/v3", "sigs.k8s.io/yaml",
			"github.com/prometheus/common/model", "github.com/prometheus/prometheus/model", "github.com/prometheus/prometheus/promql/parser",
		}},
		{dir: "dashboards", imports: []string{"rules"}},

		{dir: "remediator/policy", imports: []string{"api"}, closed: true, libraries: []string{"k8s.io/apimachinery"}},
		{dir: "remediator/signal", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/ledger", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/actuate", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/nodecheck", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/drain", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/snapshot", imports: []string{"api", "remediator/policy", "internal"}},
		{dir: "remediator/recording", imports: []string{"api", "remediator/policy", "remediator/snapshot"}},
		{dir: "remediator/replay", imports: []string{"api", "remediator/policy", "remediator/snapshot"}},
		{dir: "remediator/hint"},
		{dir: "remediator", imports: []string{"api", "internal"}},

		{dir: "operator", imports: []string{"api", "edge", "cascade", "central", "rules", "dashboards", "deploy", "internal"}},
		{dir: "deploy", imports: []string{"api"}},

		{dir: "internal/local", imports: []string{"api", "edge", "cascade", "central", "rules", "dashboards", "deploy", "internal"}},
		{dir: "internal/testkit", imports: []string{"api", "deploy", "internal", "internal/local"}},
		{dir: "internal", imports: []string{"api", "deploy"}},

		{dir: "test/scenario", imports: []string{"api", "remediator/policy"}},
		{dir: "test", imports: []string{
			"api", "edge", "cascade", "central", "rules", "dashboards", "remediator", "operator", "deploy", "internal", "internal/local",
			"internal/testkit",
		}},
		{dir: "cmd", imports: []string{
			"api", "edge", "cascade", "central", "rules", "dashboards", "remediator", "remediator/hint", "remediator/recording", "remediator/replay", "remediator/snapshot", "operator", "deploy", "internal", "internal/local",
		}},
	}
}

// forTests returns what the test files of every room may import on top: the
// real servers, the parts of the local fleet that stand in for a provider, and
// the files that are installed.
func forTests() []string {
	return []string{"internal/testkit", "internal/local", "internal", "deploy", "rules"}
}

// roomOf finds the room that a folder of our module belongs to.
func roomOf(dir string) (room, bool) {
	all := rooms()
	i := slices.IndexFunc(all, func(r room) bool { return within(dir, r.dir) })
	if i < 0 {
		return room{}, false
	}
	return all[i], true
}
