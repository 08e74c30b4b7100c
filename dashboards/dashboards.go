// Package dashboards builds Grafana's dashboards as data: every panel has a
// unit, a description and a way on, and reads only series that the contract
// lets reach a central. It builds only; pushing and provisioning are elsewhere.
package dashboards

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

//go:generate go test -run TestJSONIsCurrent . -update

// UIDs of the dashboards. They are stable, because links and bookmarks name them.
const (
	GlobalUID    = "pharos-global"
	GeographyUID = "pharos-geography"
	CellUID      = "pharos-cell"
	ClusterUID   = "pharos-cluster"
	PipelineUID  = "pharos-pipeline"
)

// All builds every dashboard, in the order in which a person goes down them.
func All() ([]dashboard.Dashboard, error) {
	var out []dashboard.Dashboard
	for _, p := range []page{global(), geography(), cell(), cluster(), pipeline()} {
		d, err := p.build()
		if err != nil {
			return nil, fmt.Errorf("building dashboard %q: %w", p.uid, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// JSON gives every dashboard as Grafana's classic model, by file name. The same
// version of Pharos gives the same bytes.
func JSON() (map[string][]byte, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(all))
	for _, d := range all {
		raw, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encoding dashboard %q: %w", *d.Uid, err)
		}
		out[*d.Uid+".json"] = append(raw, '\n')
	}
	return out, nil
}

// page is what differs from one dashboard to the next.
type page struct {
	uid, title, description string
	variables               []variable
	panels                  []panel
}

func (p page) build() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder(p.title).Uid(p.uid).Description(p.description).
		Tags([]string{"pharos"}).Readonly().Refresh("30s").Time("now-1h", "now").Timezone("browser").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	var names []string
	for _, v := range p.variables {
		b = b.WithVariable(v.builder())
		names = append(names, v.name)
	}
	for i, panel := range p.panels {
		b = b.WithPanel(panel.builder(uint32(i+1), names))
	}
	return b.Build()
}

func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}
