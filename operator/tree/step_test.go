package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// moving renders a fleet of which some cells have to move, and gives its documents.
func moving(t *testing.T, dir string) (documents []string, made *tree.Tree) {
	t.Helper()
	again(t, dir, "", append([]string{dense}, sized(nil, upTo(16)...)...)...)
	documents = append([]string{dense}, sized(map[int]string{0: "Large"}, upTo(16)...)...)
	return documents, again(t, dir, "", documents...)
}

// The second run of a command goes on from what the first one wrote, even where the
// first has begun the next move itself.
func TestAStepIsTakenOnce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	grown, made := moving(t, out)
	id := stepOf(t, made)
	small := append([]string{dense}, sized(nil, upTo(16)...)...) // what has grown shrinks: a merge begins with the same step
	again(t, out, id, small...)
	once := contents(t, out)
	made = again(t, out, id, small...)
	require.Equal(t, once, contents(t, out))
	require.Contains(t, made.Warnings[0], "the step "+id+" was taken by an earlier render")

	_, err := tried(t, out, "0123456789ab", grown...)
	require.ErrorContains(t, err, "--end-moves=0123456789ab: ")
	for range 6 { // whatever is under way, it comes to an end
		if !slices.ContainsFunc(made.Warnings, func(w string) bool { return strings.Contains(w, "--end-moves=") }) {
			break
		}
		made = again(t, out, stepOf(t, made), small...)
	}
	_, err = tried(t, out, "0123456789ab", small...)
	require.ErrorContains(t, err, "nothing is under way")
}

// What changes elsewhere in the fleet leaves a step its ID; what begins another move
// does not.
func TestAStepIsWhatMoves(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	grown, made := moving(t, out)
	id := stepOf(t, made)
	grown = slices.Clip(grown)
	europe := cellYAML("europe-1", "europe", "e1:9090") + "    shards: 1\n"
	withEurope := append(grown, europe)
	require.Equal(t, id, stepOf(t, again(t, out, "", withEurope...)))
	larger, err := tried(t, out, "", append(grown, strings.Replace(strings.Replace(europe, `["e1:9090"]`, `["e1:9090", "e2:9090"]`, 1), "shards: 1", "shards: 2", 1))...)
	require.NoError(t, err)
	require.NotEqual(t, id, stepOf(t, larger), "nobody has looked whether that has arrived")
}

// A render that was killed after the plan had taken its place, and before anything
// else had, is made whole by the same command, and by one without the step.
func TestAStepThatWasKilledIsTakenToItsEnd(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			out, whole := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
			grown, made := moving(t, out)
			id := stepOf(t, made)
			require.NoError(t, os.CopyFS(whole, os.DirFS(out)))
			taken, err := tried(t, whole, id, grown...)
			require.NoError(t, err)
			write(t, taken, whole)

			before, after := contents(t, out)[tree.ManifestFile], contents(t, whole)
			require.NoError(t, os.WriteFile(filepath.Join(out, tree.ManifestFile), []byte(before+after[tree.ManifestFile]), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(out, tree.PlanFile), []byte(after[tree.PlanFile]), 0o600))
			vouched := ""
			if again {
				vouched = id
			}
			made, err = tried(t, out, vouched, grown...)
			require.NoError(t, err)
			write(t, made, out)
			require.Equal(t, after, contents(t, out))
		})
	}
}

// A cascade that a merge has emptied, or whose geography is gone, runs for a step
// more, and no central waits for it.
func TestAnEmptiedCascadeStaysForOneStep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	again(t, out, "", append([]string{dense}, sized(nil, upTo(24)...)...)...)
	has := func(cascade string) bool { return len(contents(t, out)["hub/manifests/"+cascade+".yaml"]) > 0 }
	expects := func(number string) bool {
		return strings.Contains(contents(t, out)["hub/files/central-a/topology.rules.yaml"], "cascade_shard: \""+number+"\"")
	}
	require.True(t, has("cascade-asia-1"))
	few := append([]string{dense}, sized(nil, upTo(4)...)...)
	made := again(t, out, "", few...)
	for i := 0; expects("1"); i++ { // the steps of the merge
		require.Less(t, i, 4)
		require.True(t, has("cascade-asia-1"))
		made = again(t, out, stepOf(t, made), few...)
	}
	require.True(t, has("cascade-asia-1"), "the centrals may not know yet that it is not expected")
	require.Contains(t, strings.Join(made.Warnings, "\n"), "cascade-asia-1 reads no cell any more")
	require.NotContains(t, readBy(t, out), "cascade-asia-1")
	made = again(t, out, stepOf(t, made), few...)
	require.False(t, has("cascade-asia-1"))
	require.Empty(t, made.Warnings)

	europe := []string{strings.Replace(told, "    - name: asia\n", "", 1), cellYAML("e", "europe", "e:9090")}
	made = again(t, out, "", europe...)
	require.True(t, has("cascade-asia-0"))
	require.True(t, has("cascade-europe-0"))
	require.NotContains(t, contents(t, out)["hub/files/central-a/topology.rules.yaml"], "asia")
	made = again(t, out, stepOf(t, made), europe...)
	require.False(t, has("cascade-asia-0"))
	require.Empty(t, made.Warnings)
}
