package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

func crossing() *rules.Contract {
	return &rules.Contract{Series: []rules.Series{
		{Name: "z:edge:only", Kind: rules.Gauge, Labels: []string{"edge_only"}, From: rules.Edge, To: rules.Edge},
		{Name: "y:latency:seconds", Kind: rules.Histogram, Labels: []string{"cell", "pool"}, From: rules.Edge, To: rules.Central},
		{Name: "x:age:seconds", Kind: rules.Gauge, Labels: []string{"cell", "zone"}, From: rules.Cascade, To: rules.Central},
		{Name: "a:sum:count", Kind: rules.Gauge, Labels: []string{"geography"}, From: rules.Central, To: rules.Central},
	}}
}

func TestLabelsOfALink(t *testing.T) {
	told := []string{"cascade_replica", "cascade_shard", "cell", "central_replica", "edge_replica", "edge_shard", "le", "pool"}
	require.Equal(t, told, crossing().Labels(rules.Cascade))
	require.Equal(t, append(told, "zone"), crossing().Labels(rules.Central))
}

func TestKeptAtATier(t *testing.T) {
	names, labels := crossing().Kept(rules.Central)
	require.Equal(t, []string{"a:sum:count", "x:age:seconds", "y:latency:seconds_bucket", "y:latency:seconds_count", "y:latency:seconds_sum"}, names)
	require.Subset(t, labels, []string{"geography", "zone", "pool", "le"})
	names, _ = crossing().Kept(rules.Edge)
	require.Equal(t, []string{"y:latency:seconds_bucket", "y:latency:seconds_count", "y:latency:seconds_sum", "z:edge:only"}, names)
}

func TestOrBuiltIn(t *testing.T) {
	var none *rules.Contract
	built, err := none.OrBuiltIn()
	require.NoError(t, err)
	require.NotEmpty(t, built.Series)
	own, err := crossing().OrBuiltIn()
	require.NoError(t, err)
	require.Equal(t, *crossing(), own)
}
