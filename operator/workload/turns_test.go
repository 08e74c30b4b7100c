package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSparedAreTheObjectsOfParts(t *testing.T) {
	known := map[string]bool{
		"StatefulSet cascade-asia-1": true, "ConfigMap cascade-asia-1": true, "ConfigMap cascade-asia-1.targets-0": true,
		"StatefulSet cascade-asia-10": true, "Service alertmanager": true,
	}
	require.ElementsMatch(t, []string{"StatefulSet cascade-asia-1", "ConfigMap cascade-asia-1", "ConfigMap cascade-asia-1.targets-0"},
		Spared(known, []string{"cascade-asia-1"}))
	require.Empty(t, Spared(known, nil))
}
