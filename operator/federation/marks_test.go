package federation

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// A mark is one line more, and nothing else of the files is another.
func TestAMarkIsALineMore(t *testing.T) {
	r := offline(t, fleetOf(), cellIn("asia", "a"))
	marked := r.Files["central-a"]
	config := string(marked[promcfg.ConfigFile])
	has := markIn(config)
	require.Len(t, has.digest, 16)
	require.EqualValues(t, 1, has.number)
	require.Equal(t, has, markIn(string(r.Files["central-b"][promcfg.ConfigFile])))
	require.NoError(t, promcfg.Validate(marked))

	plain := maps.Clone(marked)
	delete(plain, has.file())
	plain[promcfg.ConfigFile] = []byte(strings.Replace(config, "  - "+has.file()+"\n", "", 1))
	require.Empty(t, markIn(string(plain[promcfg.ConfigFile])))
	again := maps.Clone(plain)
	require.NoError(t, mark(again, has))
	require.Equal(t, marked, again)

	other := offline(t, fleetOf(), cellIn("asia", "a"), cellIn("asia", "b"))
	require.NotEqual(t, has.digest, markIn(string(other.Files["central-a"][promcfg.ConfigFile])).digest, "another cell is in another file")
}

// The number of a mark says what is newer, whichever of the two centrals has it, and
// whatever has come before.
func TestAMarkSaysWhatIsNewer(t *testing.T) {
	for _, c := range []struct {
		name, digest string
		a, b         marked
		want         marked
	}{
		{"nothing was given yet", "d1", marked{}, marked{}, marked{1, "d1"}},
		{"nothing has changed", "d1", marked{1, "d1"}, marked{1, "d1"}, marked{1, "d1"}},
		{"both get more", "d2", marked{1, "d1"}, marked{1, "d1"}, marked{2, "d2"}},
		{"the first one has it already", "d2", marked{2, "d2"}, marked{1, "d1"}, marked{2, "d2"}},
		{"the second one, which was down, has it already", "d2", marked{1, "d1"}, marked{2, "d2"}, marked{2, "d2"}},
		{"it is as before again", "d1", marked{2, "d2"}, marked{1, "d1"}, marked{3, "d1"}},
		{"the first one's is gone", "d2", marked{}, marked{4, "d1"}, marked{5, "d2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, next(c.digest, map[string]marked{"central-a": c.a, "central-b": c.b}))
		})
	}
	require.Equal(t, marked{}, markIn("rule_files: [loaded-99999999999999999999999-ab.rules.yaml]"), "more than can be counted")
}
