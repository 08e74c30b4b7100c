package dashboards

import (
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// runbooks is where the page of each alert stands.
const runbooks = "https://github.com/pharos-fleet/pharos/blob/main/docs/runbooks/"

// place is a dashboard that a panel leads on to.
type place struct {
	uid, title string
	// labels are those that choose what the dashboard shows. Its variables are
	// called the same.
	labels []string
}

func toFleet() place     { return place{GlobalUID, "The whole fleet", nil} }
func toGeography() place { return place{GeographyUID, "By geography", []string{"geography"}} }
func toCell() place      { return place{CellUID, "By cell", []string{"cell"}} }
func toCluster() place   { return place{ClusterUID, "By cluster", []string{"cell", "cluster"}} }
func toPipeline() place  { return place{PipelineUID, "The pipeline", nil} }

// url carries over the time, the data source, and what values says of the
// place's variables. Grafana fills in what begins with a dollar.
func (p place) url(values func(label string) string) string {
	query := []string{"${__url_time_range}", "${datasource:queryparam}"}
	for _, label := range p.labels {
		if v := values(label); v != "" {
			query = append(query, v)
		}
	}
	return "/d/" + p.uid + "?" + strings.Join(query, "&")
}

// from leads to the place with the variables that the page has, too.
func (p place) from(variables []string) cog.Builder[dashboard.DashboardLink] {
	return link(p.title, p.url(func(label string) string {
		if !slices.Contains(variables, label) {
			return ""
		}
		return "${" + label + ":queryparam}"
	}))
}

// ofRow leads to the place for what one row of a table, or one line of a graph, is about.
func (p place) ofRow(k kind) cog.Builder[dashboard.DashboardLink] {
	return link(p.title, p.url(func(label string) string {
		if k == list {
			return "var-" + label + "=${__data.fields." + label + "}"
		}
		return "var-" + label + "=${__field.labels." + label + "}"
	}))
}

func link(title, url string) cog.Builder[dashboard.DashboardLink] {
	return dashboard.NewDashboardLinkBuilder(title).Type(dashboard.DashboardLinkTypeLink).Url(url)
}
