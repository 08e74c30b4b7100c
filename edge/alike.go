package edge

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// alike is what the edges of most cells have in common, which differ in nothing but
// where they are and whom they write to. Nothing may change it.
type alike struct {
	files promcfg.Files
	jobs  []promcfg.ScrapeConfig
}

// rendered remembers what was made for such edges. It is bounded by forgetting all.
var rendered struct {
	mu    sync.Mutex
	known map[string]alike
}

// maxAlike is more than a fleet has of edges that are different in kind.
const maxAlike = 200

// alike makes the rules and the jobs of an edge, once for all that are like it. What
// follows from a contract of a team's own is not remembered: that may change.
func (o Options) alike(contract rules.Contract) (alike, error) {
	if o.Contract != nil {
		return o.make(contract)
	}
	like := o
	like.Geography, like.Region, like.Cell, like.Link, like.Receivers = "", "", "", promcfg.Link{}, nil
	raw, err := json.Marshal(like)
	if err != nil {
		return alike{}, fmt.Errorf("comparing edge of cell %q with others: %w", o.Cell, err)
	}
	rendered.mu.Lock()
	made, known := rendered.known[string(raw)]
	rendered.mu.Unlock()
	if known {
		return made, nil
	}
	if made, err = o.make(contract); err != nil {
		return alike{}, err
	}
	rendered.mu.Lock()
	defer rendered.mu.Unlock()
	if rendered.known == nil || len(rendered.known) >= maxAlike {
		rendered.known = map[string]alike{}
	}
	rendered.known[string(raw)] = made
	return made, nil
}

func (o Options) make(contract rules.Contract) (alike, error) {
	files, err := contract.Files(rules.Edge, o.Interval, o.Topology())
	return alike{files, jobs(o, contract)}, err
}
