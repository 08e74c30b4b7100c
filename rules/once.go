package rules

import (
	"sync"
	"time"
)

// What follows from the embedded files alone is worked out once in the life of a
// program: a fleet has hundreds of servers, each of which is rendered from it
// again and again.

// builtIn is the contract that is built in. Nothing may change it.
var builtIn = sync.OnceValues(func() (Contract, error) {
	raw, err := ContractSource()
	if err != nil {
		return Contract{}, err
	}
	return Parse(ContractFile, raw)
})

// rendering is what the rule files of a tier follow from.
type rendering struct {
	tier     Tier
	interval time.Duration
}

// renderings are functions that each render once. Intervals are few: the API
// allows forty.
var renderings sync.Map

// once renders the rule files of a tier. Nothing may change them.
func once(t Tier, interval time.Duration) (map[string][]byte, error) {
	first := sync.OnceValues(func() (map[string][]byte, error) { return render(t, interval) })
	f, _ := renderings.LoadOrStore(rendering{t, interval}, first)
	return f.(func() (map[string][]byte, error))()
}

// reaches are functions that each work out the Reach of a tier once.
var reaches sync.Map
