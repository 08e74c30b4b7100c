package dashboards

import (
	"slices"
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
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
	// complete is the completeness of what the panel sums over cells, shown beside
	// the sum. Empty where nothing is summed over cells.
	complete query
	// runbook is the alert whose page says what to do, and opens the dashboard that
	// says more. With neither a panel leads to the fleet.
	runbook string
	opens   place
	// rows lets each row or line open that dashboard for what it is about.
	rows bool
	// zoomed lets the axis of a graph begin where its lines do, not at 0.
	zoomed bool
}

type query struct {
	expr, legend string
	// unit is the query's own. Empty means the panel's.
	unit string
}

// ofFleet and ofGeography stand beside sums.
func ofFleet() query {
	return query{"fleet:completeness:ratio", "of the cells", units.PercentUnit}
}

func ofGeography(matchers string) query {
	return query{"geography:completeness:ratio" + matchers, "{{geography}}: of the cells", units.PercentUnit}
}

// all are the panel's queries with the completeness last.
func (p panel) all() []query {
	if p.complete.expr == "" {
		return p.queries
	}
	return append(slices.Clip(p.queries), p.complete)
}

// says is the description of what is shown, and of how much it is about.
func (p panel) says() string {
	if p.complete.expr == "" {
		return p.description
	}
	return p.description + " Over the cells that contribute; beside it, what share of the expected cells those are."
}

// builder fills in what the SDK leaves empty and Grafana needs: panel id, query
// ids, a visible legend and a tooltip mode. The variables are those of the page.
func (p panel) builder(id uint32, variables []string) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.says()).Unit(p.unit).
			Datasource(source()).Span(p.width).Height(p.height).Links(p.links(variables)).DataLinks(p.rowLinks()).
			NoValue("unknown").
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
		for i, q := range p.all() {
			b = b.WithTarget(q.target(i).Instant())
			if looks := q.looks(); len(looks) > 0 {
				b = b.OverrideByQuery(ref(i), looks)
			}
		}
		return b
	case list:
		return p.table(id, variables)
	default:
		return p.lines(id, variables)
	}
}

// lines has one line for each series.
func (p panel) lines(id uint32, variables []string) cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.says()).Unit(p.unit).
		Datasource(source()).Span(p.width).Height(p.height).Links(p.links(variables)).DataLinks(p.rowLinks()).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if !p.zoomed {
		b = b.Min(0)
	}
	for i, q := range p.all() {
		looks := q.looks()
		if q == p.complete {
			looks = append(looks, beside()...)
		}
		b = b.WithTarget(q.target(i).Range())
		if len(looks) > 0 {
			b = b.OverrideByQuery(ref(i), looks)
		}
	}
	return b
}

// table has one row for what each series is about, and a column for each query.
func (p panel) table(id uint32, variables []string) cog.Builder[dashboard.Panel] {
	b := table.NewPanelBuilder().Id(id).Title(p.title).Description(p.says()).Unit(p.unit).
		Datasource(source()).Span(p.width).Height(p.height).Links(p.links(variables)).DataLinks(p.rowLinks()).
		NoValue("none").
		OverrideByName("Time", []dashboard.DynamicConfigValue{{Id: "custom.hidden", Value: true}})
	for i, q := range p.all() {
		column := "Value"
		if len(p.all()) > 1 {
			column += " #" + ref(i)
		}
		looks := q.looks()
		if q.legend != "" {
			looks = append(looks, dashboard.DynamicConfigValue{Id: "displayName", Value: q.legend})
		}
		b = b.WithTarget(q.target(i).Instant().Format(prometheus.PromQueryFormatTable))
		if len(looks) > 0 {
			b = b.OverrideByName(column, looks)
		}
	}
	if len(p.all()) > 1 {
		b = b.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	return b
}

// ref is the id of a panel's nth query.
func ref(n int) string { return string(rune('A' + n)) }

func (q query) target(n int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).RefId(ref(n)).Expr(q.expr).LegendFormat(q.legend)
}

// looks is what of a query differs from its panel.
func (q query) looks() []dashboard.DynamicConfigValue {
	if q.unit == "" {
		return nil
	}
	return []dashboard.DynamicConfigValue{{Id: "unit", Value: q.unit}}
}

// beside is how a completeness is drawn into a graph: thin, dashed, from 0 to 1 by
// an axis of its own.
func beside() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{
		{Id: "custom.axisPlacement", Value: "right"},
		{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{4, 6}}},
		{Id: "max", Value: 1},
	}
}

func (p panel) links(variables []string) []cog.Builder[dashboard.DashboardLink] {
	var out []cog.Builder[dashboard.DashboardLink]
	if p.runbook != "" {
		out = append(out, link("Runbook: "+p.runbook, runbooks+p.runbook+".md"))
	}
	if p.opens.uid != "" {
		out = append(out, p.opens.from(variables))
	}
	if len(out) == 0 {
		out = append(out, toFleet().from(variables))
	}
	return out
}

func (p panel) rowLinks() []cog.Builder[dashboard.DashboardLink] {
	if !p.rows {
		return nil
	}
	return []cog.Builder[dashboard.DashboardLink]{p.opens.ofRow(p.kind)}
}

// top keeps the n worst of what could be thousands.
func top(n int, expr string) string { return "topk(" + strconv.Itoa(n) + ", " + expr + ")" }
