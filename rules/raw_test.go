package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// TestNothingIsScrapedForNobody looks for a reader of every raw series of an edge: a rule, a
// panel, or a query of a runbook that is put to an edge. What nobody reads costs
// each edge memory all the same.
func TestNothingIsScrapedForNobody(t *testing.T) {
	name := regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_:]*`)
	read := map[string]bool{}
	each(t, func(_ *testing.T, _ rules.Tier, _ string, r rulefmt.Rule) {
		for _, word := range name.FindAllString(r.Expr, -1) {
			read[word] = true
		}
	})
	for _, folder := range []string{"docs/runbooks/*.md", "dashboards/json/*.json"} {
		pages, err := filepath.Glob(filepath.Join(testkit.Root(t), filepath.FromSlash(folder)))
		require.NoError(t, err)
		require.NotEmpty(t, pages, folder)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, word := range name.FindAllString(string(text), -1) {
				read[word] = true
			}
		}
	}
	for _, raw := range contract(t).Raw {
		if raw.Tier != rules.Edge {
			continue // what a Prometheus says by itself costs nothing to ask for
		}
		readers := 0
		for _, full := range raw.Kind.Names(raw.Name) {
			if read[full] {
				readers++
			}
		}
		require.NotZero(t, readers, "%s is scraped, and no rule, panel or runbook reads it: use it, or take it out of rules/contract.yaml", raw.Name)
	}
}
