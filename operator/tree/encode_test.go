package tree

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"pgregory.net/rapid"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
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
	objects := newTemplates()
	for range 2 {
		got, err := objects.encode(cm, "")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	require.Len(t, cm.Data, len(data), "what is written stays as it was")
}

// An object is written the same whether another cell had the like of it or not, whatever
// the cell is called.
func TestAnObjectOfACellIsWrittenAsAWhole(t *testing.T) {
	objects := newTemplates()
	for _, cell := range []string{"asia-1", "asia-2", "123", "1e3", "true", "null", "a.b", "the-cell"} {
		for _, selector := range []string{"asia-1", cell} {
			s := corev1ac.Service("edge", "pharos-system").WithLabels(map[string]string{v1alpha1.LabelCell: cell, "a": "1", "z": cell}).
				WithSpec(corev1ac.ServiceSpec().WithSelector(map[string]string{v1alpha1.LabelCell: selector}))
			raw, err := json.Marshal(s)
			require.NoError(t, err)
			want, err := encodeJSON(raw)
			require.NoError(t, err)
			for range 2 {
				got, err := objects.encode(s, cell)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
			}
		}
	}
}

// Whatever a file is called and holds, it is written as the encoder writes it.
func TestAFileIsWrittenAsTheEncoderWritesIt(t *testing.T) {
	names := rapid.SampledFrom([]string{"prometheus.yml", "a", "true", "n.o", "1.yml", "Z.yml", "a b.yml", "x.rules.yaml", "-.y", "null.null", strings.Repeat("a", 70) + ".yml"})
	content := rapid.StringOfN(rapid.SampledFrom([]rune("ab: |>-#{}[]'\"%@`\\&*!? \n\n\n\t\r~.0é中\u2028")), 0, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		name, content := names.Draw(t, "name"), content.Draw(t, "content")
		if rapid.Bool().Draw(t, "whole lines") {
			content += "\n"
		}
		want, err := encodeYAML(map[string]any{"data": map[string]string{name: content}})
		require.NoError(t, err)
		var got bytes.Buffer
		require.NoError(t, encodeFile(&got, name, content))
		require.Equal(t, strings.TrimPrefix(string(want), dataKey), got.String())
	})
}
