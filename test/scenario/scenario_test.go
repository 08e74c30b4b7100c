package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Case C08: testdata/flapping.
// Case C10: testdata/whole-rack.
// Case C22: testdata/lemon.
// Case C29: testdata/comes-back-by-itself.
// TestScenarios runs each script in its own order and compares the transcripts.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		f := newFleet()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f.transcript.Reset()
			for _, line := range linesOf(d) {
				require.NoError(t, f.command(line), d.Pos)
			}
			require.Empty(t, f.violations, d.Pos)
			return f.transcript.String()
		})
	})
}

// linesOf are the commands of a directive: its first line and those of its input.
// "events" is none, but lists what happens, a minute apart here and in any order
// elsewhere.
func linesOf(d *datadriven.TestData) []string {
	first := []string{d.Cmd}
	for _, arg := range d.CmdArgs {
		first = append(first, arg.String())
	}
	lines := []string{strings.Join(first, " ")}
	for line := range strings.Lines(d.Input) {
		lines = append(lines, strings.TrimSpace(line))
		if d.Cmd == "events" {
			lines = append(lines, "run 1m")
		}
	}
	if d.Cmd == "events" {
		return lines[1:]
	}
	return lines
}

// TestAnyOrder runs the scripts that list events with these in ten orders that are
// the same each time and a hundred that are not, with the remediator killed now and
// then. Whatever happens, nothing forbidden does, and once all is calm every repair
// comes to an end.
func TestAnyOrder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "any-order-*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var seeds []uint64
	for seed := range uint64(10) {
		seeds = append(seeds, seed)
	}
	for range 100 {
		seeds = append(seeds, rand.Uint64())
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var fleet, events []string
			datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "fleet":
					fleet = linesOf(d)
				case "events":
					events = slices.DeleteFunc(linesOf(d), func(line string) bool { return strings.HasPrefix(line, "run ") })
				}
				return d.Expected
			})
			requests := 0
			for _, seed := range seeds {
				requests += anyOrder(t, fleet, events, seed)
			}
			require.Greater(t, requests, len(seeds), "so few repairs were asked for that the invariants saw little")
		})
	}
}

// anyOrder returns how many repairs were asked for.
func anyOrder(t *testing.T, fleet, events []string, seed uint64) int {
	f, r := newFleet(), rand.New(rand.NewPCG(seed, 0))
	lines := slices.Clone(fleet)
	for _, i := range r.Perm(len(events)) {
		lines = append(lines, events[i], "run "+strconv.Itoa(10*r.IntN(15))+"s")
		if r.IntN(4) == 0 {
			lines = append(lines, "kill-after "+strconv.Itoa(r.IntN(4)))
		}
	}
	for _, line := range append(lines, "run 7m") {
		require.NoError(t, f.command(line), "seed %d", seed)
	}
	f.calm()
	require.NoError(t, f.settle(), "seed %d", seed)
	f.must("run 1m")
	f.judgeCordons()
	require.Empty(t, f.violations, "seed %d:\n%s", seed, &f.transcript)
	return len(f.asked)
}

// killedAnywhere lets days pass on a fleet, again and again, with the remediator killed before
// its first write, after it, after its second and so on; the next one goes on from what is
// written down. It returns how many writes there are.
func killedAnywhere(t *testing.T, before, days []string, then func(f *fleet, where string)) int {
	writes := 0
	for killed := true; killed; writes++ {
		f := newFleet()
		f.addCluster("asia", "shop", 4, 5)
		for _, line := range slices.Concat(before, []string{"kill-after " + strconv.Itoa(writes)}, days) {
			f.must(line)
		}
		killed = f.writes < 0
		where := fmt.Sprintf("killed after %d writes:\n%s", writes, &f.transcript)
		require.Empty(t, f.violations, where)
		then(f, where)
	}
	return writes
}

// Case C24: killed anywhere.
// TestKilledBetweenAnyTwoWrites sees to it that the node is rebooted once.
func TestKilledBetweenAnyTwoWrites(t *testing.T) {
	writes := killedAnywhere(t, []string{"node shop-03 down"}, []string{"run 20m"}, func(f *fleet, where string) {
		f.requireOneReboot(t, where)
	})
	require.Greater(t, writes, 5, "record, request, and at least three updates are writes")
}

// requireOneReboot is of shop-03, which was down.
func (f *fleet) requireOneReboot(t *testing.T, where string) {
	require.NoError(t, f.expect("repair-1 Succeeded Verified"), where)
	require.Len(t, f.records, 1)
	require.Equal(t, 2, f.machines[3].boots, where)
}

// Case C22: killed anywhere, nothing is tried twice.
// TestKilledWhileItEscalates goes on until the last step has failed. Nothing is tried twice,
// and the machine is handed to people once.
func TestKilledWhileItEscalates(t *testing.T) {
	writes := killedAnywhere(t, []string{"policy steps", "node shop-03 dead"}, []string{"run 50m"}, func(f *fleet, where string) {
		require.NoError(t, f.expect("shop-03 Escalate Escalated"), where)
		require.Len(t, f.records, 4)
		require.Len(t, f.asked, 3)
		require.Equal(t, api.RemediationEscalated, f.records[3].Status.Phase)
	})
	require.Greater(t, writes, 18, "three steps of at least six writes")
}

// TestKilledWhileAPersonIsAsked has a person approve after ten minutes. Nothing is done
// before, and once after.
func TestKilledWhileAPersonIsAsked(t *testing.T) {
	writes := killedAnywhere(t, []string{"policy asks", "node shop-03 down"}, []string{"run 10m", "expect requests 0", "person shop-03 approves", "run 20m"},
		func(f *fleet, where string) { f.requireOneReboot(t, where) })
	require.Greater(t, writes, 7, "those of an act, and a proposal and its approval")
}
