package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// kind is how a panel shows its queries.
type kind int

const (
	number kind = iota // one figure
	graph              // lines over time
	list               // one row for each series
)

// panel is what differs from one panel to the next.
type panel struct {
	kind               kind
	title, description string
	unit               string
	queries            []query
	width, height      uint32
	// link leads on: a path of Grafana's, or a URL. Empty leads to the global dashboard.
	link, linkTitle string
}

type query struct{ expr, legend string }

// builder fills in what the SDK leaves empty and Grafana needs: panel id, query
// ids, a visible legend and a tooltip mode.
func (p panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Unit(p.unit).
			Datasource(source()).Span(p.width).Height(p.height).Links(p.links()).
			NoValue("unknown").
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
		for _, t := range p.targets(true) {
			b = b.WithTarget(t)
		}
		return b
	case list:
		b := table.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Unit(p.unit).
			Datasource(source()).Span(p.width).Height(p.height).Links(p.links()).
			NoValue("none")
		for _, t := range p.targets(true) {
			b = b.WithTarget(t.Format(prometheus.PromQueryFormatTable))
		}
		return b
	default:
		b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Unit(p.unit).
			Datasource(source()).Span(p.width).Height(p.height).Links(p.links()).Min(0).
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
		for _, t := range p.targets(false) {
			b = b.WithTarget(t)
		}
		return b
	}
}

func (p panel) targets(instant bool) []*prometheus.DataqueryBuilder {
	var out []*prometheus.DataqueryBuilder
	for i, q := range p.queries {
		t := prometheus.NewDataqueryBuilder().Datasource(source()).RefId(string(rune('A' + i))).Expr(q.expr).LegendFormat(q.legend)
		if instant {
			t = t.Instant()
		} else {
			t = t.Range()
		}
		out = append(out, t)
	}
	return out
}

func (p panel) links() []cog.Builder[dashboard.DashboardLink] {
	title, url := p.linkTitle, p.link
	if url == "" {
		title, url = "The whole fleet", "/d/"+GlobalUID
	}
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder(title).Type(dashboard.DashboardLinkTypeLink).Url(url).KeepTime(true),
	}
}
