package cascade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/rules"
)

func TestDeclaredSeries(t *testing.T) {
	series := func(from, to rules.Tier, per string, most uint, exception bool) rules.Series {
		return rules.Series{Name: "x", From: from, To: to, Max: rules.Max{Per: per, Series: most}, Exception: exception}
	}
	contract := rules.Contract{Series: []rules.Series{
		series(rules.Edge, rules.Central, "cluster", 10, false),
		series(rules.Edge, rules.Cascade, "cluster", 2, false),
		series(rules.Edge, rules.Central, "cell", 5, false),
		series(rules.Edge, rules.Central, "cell", 20_000, true), // only where something is wrong
		series(rules.Edge, rules.Edge, "cluster", 1000, false),  // it stays
		series(rules.Cascade, rules.Central, "cell", 1, false),  // the cascade's own
	}}
	require.EqualValues(t, 12*30+5, cascade.Declared(contract, cascade.Declaration{Clusters: 30}))
	require.EqualValues(t, (12*30+5*2)*2, cascade.Declared(contract, cascade.Declaration{Clusters: 30, Shards: 2, Replicas: 2}))

	// A cell of 10,000 clusters' share of 300 cells fits many times on a shard.
	builtIn, err := rules.Load()
	require.NoError(t, err)
	typical := cascade.Declared(builtIn, cascade.Declaration{Clusters: 34, Shards: 1, Replicas: 2})
	require.Positive(t, typical)
	require.Less(t, typical, uint(cascade.DefaultMaxSeriesPerShard/10))
}
