// Package dashboards builds Grafana's dashboards as data: every panel has a
// unit, a description and a way on, and reads only series that the contract
// lets reach a central. It builds only; pushing and provisioning are elsewhere.
package dashboards

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

//go:generate go test -run TestJSONIsCurrent . -update

// UIDs of the dashboards. They are stable, because links and bookmarks name them.
const (
	GlobalUID = "pharos-global"
	CellUID   = "pharos-cell"
)

// All builds every dashboard, in the order in which a person goes down them.
func All() ([]dashboard.Dashboard, error) {
	var out []dashboard.Dashboard
	for _, build := range []func() (dashboard.Dashboard, error){global, cell} {
		d, err := build()
		if err != nil {
			return nil, fmt.Errorf("building dashboards: %w", err)
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

// page is a dashboard with what all of ours share.
func page(uid, title, description string, variables []cog.Builder[dashboard.VariableModel], panels []panel) (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder(title).Uid(uid).Description(description).
		Tags([]string{"pharos"}).Readonly().Refresh("30s").Time("now-1h", "now").Timezone("browser").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, v := range variables {
		b = b.WithVariable(v)
	}
	for i, p := range panels {
		b = b.WithPanel(p.builder(uint32(i + 1)))
	}
	return b.Build()
}

func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}
