package edge

import (
	"encoding/json"
	"fmt"

	"k8s.io/utils/lru"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// alike is what the edges of most cells have in common, which differ in nothing but
// where they are and whom they write to. Nothing may change it.
type alike struct {
	files promcfg.Files
	jobs  []promcfg.ScrapeConfig
}

// NewMemory remembers what was made for such edges, for whoever renders many.
func NewMemory() *lru.Cache {
	const most = 200 // more than a fleet has of edges that are different in kind
	return lru.New(most)
}

// alike makes the rules and the jobs of an edge, once for all that are like it
// where Options have a Memory. What follows from a contract of a team's own is not
// remembered: that may change.
func (o Options) alike(contract rules.Contract) (alike, error) {
	if o.Contract != nil || o.Memory == nil {
		return o.make(contract)
	}
	like := o
	like.Geography, like.Region, like.Cell, like.Link, like.Receivers = "", "", "", promcfg.Link{}, nil
	raw, err := json.Marshal(like)
	if err != nil {
		return alike{}, fmt.Errorf("comparing edge of cell %q with others: %w", o.Cell, err)
	}
	if made, known := o.Memory.Get(string(raw)); known {
		return made.(alike), nil
	}
	made, err := o.make(contract)
	if err != nil {
		return alike{}, err
	}
	o.Memory.Add(string(raw), made)
	return made, nil
}

func (o Options) make(contract rules.Contract) (alike, error) {
	files, err := contract.Files(rules.Edge, o.Interval, o.Topology())
	return alike{files, jobs(o, contract)}, err
}
