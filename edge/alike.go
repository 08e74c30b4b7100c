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

// Memory is of what was made for such edges, for whoever renders many: the zero value
// remembers nothing yet. It is bounded by forgetting all.
type Memory struct {
	mu    sync.Mutex
	known map[string]alike
}

// maxAlike is more than a fleet has of edges that are different in kind.
const maxAlike = 200

// alike makes the rules and the jobs of an edge, once for all that are like it
// where Options have a Memory. What
// follows from a contract of a team's own is not remembered: that may change.
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
	if made, known := o.Memory.recall(string(raw)); known {
		return made, nil
	}
	made, err := o.make(contract)
	if err != nil {
		return alike{}, err
	}
	o.Memory.remember(string(raw), made)
	return made, nil
}

func (m *Memory) recall(like string) (alike, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, known := m.known[like]
	return made, known
}

func (m *Memory) remember(like string, made alike) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxAlike {
		m.known = map[string]alike{}
	}
	m.known[like] = made
}

func (o Options) make(contract rules.Contract) (alike, error) {
	files, err := contract.Files(rules.Edge, o.Interval, o.Topology())
	return alike{files, jobs(o, contract)}, err
}
