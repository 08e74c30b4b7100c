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
	digest := markIn(config)
	require.Len(t, digest, 16)
	require.Equal(t, digest, markIn(string(r.Files["central-b"][promcfg.ConfigFile])))
	require.NoError(t, promcfg.Validate(marked))

	plain := maps.Clone(marked)
	delete(plain, markPrefix+digest+markSuffix)
	plain[promcfg.ConfigFile] = []byte(strings.Replace(config, "  - "+markPrefix+digest+markSuffix+"\n", "", 1))
	require.Empty(t, markIn(string(plain[promcfg.ConfigFile])))
	again := maps.Clone(plain)
	require.NoError(t, mark(again, digest))
	require.Equal(t, marked, again)

	other := offline(t, fleetOf(), cellIn("asia", "a"), cellIn("asia", "b"))
	require.NotEqual(t, digest, markIn(string(other.Files["central-a"][promcfg.ConfigFile])), "another cell is in another file")
}
