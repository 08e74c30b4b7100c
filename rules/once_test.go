package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// What is worked out once is nobody's to spoil for the next.
func TestNobodySpoilsWhatIsWorkedOutOnce(t *testing.T) {
	first, err := rules.Load()
	require.NoError(t, err)
	name := first.Series[0].Name
	first.Series[0].Name = "spoilt"
	first.Series = append(first.Series, rules.Series{Name: "more"})
	again, err := rules.Load()
	require.NoError(t, err)
	require.Equal(t, name, again.Series[0].Name)

	rendered, err := rules.Render(rules.Central, 5*time.Second)
	require.NoError(t, err)
	files := len(rendered)
	clear(rendered)
	rendered, err = rules.Render(rules.Central, 5*time.Second)
	require.NoError(t, err)
	require.Len(t, rendered, files)
	other, err := rules.Render(rules.Central, 15*time.Second)
	require.NoError(t, err)
	require.NotEqual(t, rendered, other, "each interval has its own")
}
