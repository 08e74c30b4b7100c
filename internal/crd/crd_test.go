package crd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/crd"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct{ kind, object, path, says string }{
		"right":              {"Cell", `{"metadata":{"name":"a"},"spec":{"geography":"g","region":"r","kubeconfigSecret":"k"}}`, "", ""},
		"a field is missing": {"Cell", `{"metadata":{"name":"a"},"spec":{"region":"r","kubeconfigSecret":"k"}}`, "spec.geography", "Required value"},
		"a name":             {"RemediationPolicy", `{"metadata":{"name":"A_"},"spec":{"matchAll":"All"}}`, "metadata.name", "lowercase RFC 1123"},
		"a rule":             {"RemediationPolicy", `{"metadata":{"name":"a"},"spec":{"mode":"Act"}}`, "spec", "an empty selection is not everything"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := crd.Check(c.kind, []byte(c.object))
			require.NoError(t, err)
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			require.Equal(t, c.path, found[0].Path)
			require.ErrorContains(t, found[0].Err, c.says)
		})
	}
	_, err := crd.Check("Pod", []byte("{}"))
	require.ErrorContains(t, err, "no kind of Pharos")
}
