package tree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// Files that are written one by one make the bytes that the object as a whole
// makes, the first time and every other.
func TestAConfigMapIsWrittenAsAWhole(t *testing.T) {
	data := map[string]string{
		"edge-nodes.rules.yaml": "groups:\n  - name: a\n\n    rules: []\n", "topology.rules.yaml": "x: \"中国 {{ $labels.x }}\"\n",
		"a": "", "b": "no", "c": "two\nlines", "d": " leading\n  space\n\n", "e": "trailing \n", "f": "tab\there", "g.rules.yaml": "\n", "z: - y": "k",
		"long": strings.Repeat("word ", 100), "emoji": "\U0001f984\r\n", "Z": "capital",
	}
	cm := corev1ac.ConfigMap("edge", "pharos-system").WithLabels(map[string]string{"a": "1"}).WithData(data)
	raw, err := json.Marshal(cm)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	want, err := encodeYAML(fields)
	require.NoError(t, err)
	for range 2 {
		got, err := encode(cm)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	require.Len(t, cm.Data, len(data), "what is written stays as it was")
}
