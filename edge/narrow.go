package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// narrowRules renders the edge's rules for a server that others use, too: as
// files by name, and all groups in the order of the files.
func narrowRules(o Options, contract rules.Contract) (promcfg.Files, []rulefmt.RuleGroup, error) {
	rendered, err := contract.Files(rules.Edge, o.Interval, o.Topology())
	if err != nil {
		return nil, nil, err
	}
	files := promcfg.Files{}
	var all []rulefmt.RuleGroup
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		groups, errs := rulefmt.Parse(rendered[name], false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			return nil, nil, fmt.Errorf("%s: %w", name, errors.Join(errs...))
		}
		if err := contract.Narrow(groups.Groups); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range groups.Groups {
			groups.Groups[i].Interval = model.Duration(o.Interval)
		}
		if files[name], err = promcfg.Marshal(groups); err != nil {
			return nil, nil, err
		}
		all = append(all, groups.Groups...)
	}
	return files, all, nil
}
