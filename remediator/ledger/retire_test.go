package ledger_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// ended are records that have come to an end, as they are listed.
func ended(t *testing.T, l *ledger.Ledger, names ...string) []*api.Remediation {
	for _, name := range names {
		_, err := l.Record(t.Context(), name, spec("m-"+name))
		require.NoError(t, err)
		_, _, err = l.Update(t.Context(), policy.Update{Name: name, Phase: api.RemediationSucceeded, Reason: policy.ReasonVerified, Message: "well"}, now)
		require.NoError(t, err)
	}
	all, err := l.List(t.Context())
	require.NoError(t, err)
	var out []*api.Remediation
	for _, name := range names {
		for i := range all {
			if all[i].Name == name {
				out = append(out, &all[i])
			}
		}
	}
	require.Len(t, out, len(names))
	return out
}

// audited are the records in the audit log of a day, which must be whole lines but for
// those that are not JSON.
func audited(t *testing.T, dir, day string) []api.Remediation {
	raw, err := os.ReadFile(filepath.Join(dir, "remediations-"+day+".jsonl"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(raw), "\n"))
	var out []api.Remediation
	for line := range strings.Lines(string(raw)) {
		var rem api.Remediation
		if json.Unmarshal([]byte(line), &rem) == nil {
			out = append(out, rem)
		}
	}
	return out
}

// Case C32: what is taken away is in the audit log first.
func testRetire(t *testing.T, hub client.Client) {
	l, dir := ledger.New(hub, "default"), t.TempDir()
	there := func() int {
		all, err := l.List(t.Context())
		require.NoError(t, err)
		return len(all)
	}
	before := there()
	all := ended(t, l, "gone-1", "gone-2", "changed")
	touched := all[2].DeepCopy()
	touched.Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
	require.NoError(t, hub.Update(t.Context(), touched))

	audit := ledger.NewAudit(dir)
	n, err := l.Retire(t.Context(), audit, all, now)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, before+1, there(), "what a person has touched since stays")
	kept := audited(t, dir, "2026-03-01")
	require.Len(t, kept, 3)
	want := all[0].DeepCopy()
	want.TypeMeta, want.ManagedFields = metav1.TypeMeta{APIVersion: "pharos.dev/v1alpha1", Kind: "Remediation"}, nil
	require.Empty(t, cmp.Diff(*want, kept[0]), "the whole record is kept")

	n, err = l.Retire(t.Context(), audit, all, now)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Len(t, audited(t, dir, "2026-03-01"), 3, "and once")

	half := filepath.Join(dir, "remediations-2026-03-02.jsonl")
	require.NoError(t, os.WriteFile(half, []byte(`{"kind":"Remedi`), 0o600))
	n, err = l.Retire(t.Context(), ledger.NewAudit(dir), ended(t, l, "gone-3"), now.Add(24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, audited(t, dir, "2026-03-02"), 1, "what a crash left half written spoils nothing")

	more := ended(t, l, "stays")
	for what, audit := range map[string]*ledger.Audit{"no folder": ledger.NewAudit(filepath.Join(dir, "absent")), "no folder at all": ledger.NewAudit(half)} {
		n, err = l.Retire(t.Context(), audit, more, now)
		require.ErrorContains(t, err, "writing 1 remediations into the audit log", what)
		require.Zero(t, n)
	}
	require.Equal(t, before+2, there(), "what cannot be written down is not taken away")
	n, err = l.Retire(t.Context(), nil, more, now)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, hub.Delete(t.Context(), touched))
}
