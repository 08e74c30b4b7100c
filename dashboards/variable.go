package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// variable lets a person choose what a dashboard shows, by the values of a label.
type variable struct {
	name, title string
	// query asks for the values. Where it gives whole series, regex is what of each
	// is the value.
	query, regex string
	// all lets everything be chosen at once, where that is not too much for a
	// browser.
	all bool
}

func geographies() variable {
	return variable{name: "geography", title: "Geography", query: "label_values(geography:cells_expected:count, geography)", all: true}
}

// cells reads one series for each cell, dark or not. All cells of a fleet have ten
// thousand clusters, which are not for one page.
func cells() variable {
	return variable{name: "cell", title: "Cell", query: "label_values(fleet:cell_expected:info, cell)"}
}

// clusters reads two series of each: one is there while the cluster cannot be
// watched, the other where its API server is not scraped.
func clusters() variable {
	return variable{
		name: "cluster", title: "Cluster", all: true, regex: `/cluster="([^"]+)"/`,
		query: `query_result(group by (cluster) (cluster:up:min{cell=~"$cell"} or cluster:nodes:count{cell=~"$cell"}))`,
	}
}

// builder says "all" in two characters however many values there are.
func (v variable) builder() *dashboard.QueryVariableBuilder {
	b := dashboard.NewQueryVariableBuilder(v.name).Label(v.title).Datasource(source()).
		Query(dashboard.StringOrMap{String: &v.query}).Definition(v.query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true)
	if v.regex != "" {
		b = b.Regex(v.regex)
	}
	if v.all {
		b = b.IncludeAll(true).AllValue(".*")
	}
	return b
}
