// Package scenario_test lets a whole fleet go through bad days, without a server
// or a clock: machines that die and come back, centrals that fall silent or
// contradict each other, node operators that fail. The real decisions of
// remediator/policy are carried out on it, and what must never happen is judged by
// what is true in the fleet, not by what the decision was told.
package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// step is how far the fleet moves at a time, and how often the remediator looks.
	step = 10 * time.Second
	// leaseTime is how long a silent kubelet is believed to be alive.
	leaseTime = 40 * time.Second
	// lag is how old a sample is when a central is asked for it.
	lag = 4 * time.Second
	// lookBack is how long a central serves a sample that nothing follows.
	lookBack = 5 * time.Minute
)

// fleet is the world as it is.
type fleet struct {
	start, now time.Time
	// ahead is how wrong the clocks of "hub", where the remediator runs, and of
	// "centrals" are. All other clocks are right.
	ahead    map[string]time.Duration
	cells    []string
	machines []*machine
	centrals []*central
	policies []api.RemediationPolicy
	budgets  []api.FleetDisruptionBudget
	records  []*api.Remediation
	// places are what is reserved for repairs, as the ledger keeps it.
	places []policy.Reservation
	// incidents are those that were written down.
	incidents []api.Incident
	// state is what is wrong with a part, by its kind and name.
	state map[string]string

	remediator
	people
	transcript strings.Builder
	violations []string
}

// machine is one machine with its node. The embedded part is what the API of its
// cell says, the rest is the truth and what the API of its cluster says.
type machine struct {
	policy.Machine
	cell string
	// alive says whether the kubelet runs, and changed since when.
	alive   bool
	changed time.Time
	// dead means that nothing brings the node back, and needs what alone does. One that
	// flaps is up and down for so long in turns, whatever is done to it.
	dead bool
	// absent is a machine that is no node of its cluster.
	absent         bool
	needs          api.RemediationAction
	upFor, downFor time.Duration
	renewed        time.Time
	ready          string
	since          time.Time
	boots          int
	cordoned       bool
	// cordonedBy is the repair of ours that cordoned it. pods run there, which keeps says
	// may not go, and off is without power.
	cordonedBy string
	pods       int
	keeps, off bool
	// unready is when the node was not ready, and seen when the remediator saw that.
	unready, seen []time.Time
	job           *job
	// touched is when a repair may last have touched the machine.
	touched time.Time
}

// job is one run of the node operator's work on a machine.
type job struct {
	id     string
	spare  string
	action api.RemediationAction
	ends   time.Time
	result api.RepairPhase
}

func newFleet() *fleet {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &fleet{
		start: start, now: start, ahead: map[string]time.Duration{}, state: map[string]string{}, remediator: newRemediator(),
		people:   people{map[string]time.Time{}, map[string]time.Time{}},
		centrals: []*central{newCentral("a"), newCentral("b")},
		policies: []api.RemediationPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}}},
	}
	f.must("policy all")
	return f
}

// addCluster puts a cluster's machines into the racks of its cell from the first on,
// which it may share with another cluster. Machines and nodes bear one name.
func (f *fleet) addCluster(cell, cluster string, racks, perRack int) {
	if !slices.Contains(f.cells, cell) {
		f.cells = append(f.cells, cell)
	}
	for i := range racks * perRack {
		name := fmt.Sprintf("%s-%02d", cluster, i)
		f.machines = append(f.machines, &machine{
			Machine: policy.Machine{
				Namespace: "fleet", Name: name, UID: "uid-" + name, Cluster: cluster, Node: name, Pool: "workers", InUse: true,
				HardwareID: "hw-" + name, ProviderID: "metal://" + name, Zone: "zone-a", Rack: fmt.Sprintf("rack-%d", i/perRack+1),
			},
			cell: cell, alive: true, changed: f.now, renewed: f.now, ready: "True", since: f.now.Add(-24 * time.Hour), boots: 1, pods: 2,
		})
	}
	f.scrape()
}

// step lets ten seconds pass.
func (f *fleet) step() {
	f.now = f.now.Add(step)
	for _, m := range f.machines {
		f.operate(m)
		f.breathe(m)
	}
	f.scrape()
	f.judgeStanding()
}

// breathe is the node's kubelet, which renews its Lease, and the cluster's node
// controller, which calls a node Unknown that has not done so.
func (f *fleet) breathe(m *machine) {
	if m.absent {
		return
	}
	lasts := f.now.Sub(m.changed)
	if m.downFor > 0 && (m.alive && lasts >= m.upFor || !m.alive && lasts >= m.downFor) {
		f.turn(m, !m.alive)
	}
	ready := m.ready
	if m.alive {
		m.renewed, ready = f.now, "True"
	} else if f.now.Sub(m.renewed) >= leaseTime {
		ready = "Unknown"
	}
	if ready != "True" {
		m.unready = append(m.unready, f.now)
	}
	if ready != m.ready {
		m.ready, m.since = ready, f.now
		f.say("node %s is Ready=%s", m.Name, ready)
	}
}

func (f *fleet) turn(m *machine, alive bool) {
	if m.alive != alive {
		m.alive, m.changed = alive, f.now
	}
}

// operate is the node operator of the machine's cell. Its Jobs go on without it,
// but nobody reports them while it is away.
func (f *fleet) operate(m *machine) {
	mode := f.state["operator "+m.cell]
	if m.job != nil && m.job.result == "" && !f.now.Before(m.job.ends) {
		f.finish(m, mode)
	}
	switch {
	case mode == "away":
	case m.job != nil:
		m.Response = f.response(m.job.id, m.job.result)
		if m.job.result != "" {
			m.job = nil
		}
	case m.Request == nil || m.Response != nil && m.Response.ID == m.Request.ID:
	case f.refuses(m):
		m.Response = f.response(m.Request.ID, api.RepairRefused)
	default:
		takes := map[string]time.Duration{"slow": 45 * time.Minute}[mode]
		m.job = &job{id: m.Request.ID, action: m.Request.Action, spare: spareOf(m.Request), ends: f.now.Add(max(takes, time.Minute))}
		m.Response = f.response(m.job.id, "")
	}
}

func spareOf(r *api.RemediationRequest) string {
	if r.Spare == nil {
		return ""
	}
	return r.Spare.Name
}

func (f *fleet) response(id string, result api.RepairPhase) *api.RemediationResponse {
	if result == "" {
		return &api.RemediationResponse{ID: id, Phase: api.RepairRunning}
	}
	return &api.RemediationResponse{ID: id, Phase: result, FinishedAt: &metav1.Time{Time: f.now}}
}

func (f *fleet) refuses(m *machine) bool {
	unclaimed := m.Request.Spare != nil && f.machine(m.Request.Spare.Name).ClaimedBy != m.Request.ID
	return unclaimed || m.Paused || f.state["cluster "+m.Cluster] == "paused" ||
		m.Request.HardwareID != m.HardwareID || !f.now.Before(m.Request.StartBefore.Time)
}

func (f *fleet) finish(m *machine, mode string) {
	m.job.result, m.touched = api.RepairSucceeded, f.now
	if mode == "fails" {
		m.job.result = api.RepairFailed
		return
	}
	if m.job.action == api.ActionReplace {
		f.join(m)
		return
	}
	if m.job.action != api.ActionRestartComponent {
		m.boots++
		f.say("node %s has rebooted", m.Name)
	}
	f.turn(m, !m.dead && (m.needs == "" || m.needs == m.job.action))
}

// clock is the remediator's.
func (f *fleet) clock() time.Time { return f.now.Add(f.ahead["hub"]) }

func (f *fleet) say(format string, args ...any) {
	at := f.now.Sub(f.start) / time.Second
	fmt.Fprintf(&f.transcript, "%3d:%02d "+format+"\n", append([]any{int(at / 60), int(at % 60)}, args...)...)
}

func (f *fleet) machine(name string) *machine {
	i := slices.IndexFunc(f.machines, func(m *machine) bool { return m.Name == name })
	if i < 0 {
		panic("the fleet has no machine " + name)
	}
	return f.machines[i]
}

func (f *fleet) record(name string) *api.Remediation {
	i := slices.IndexFunc(f.records, func(r *api.Remediation) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return f.records[i]
}

// phase is how far a record is.
func phase(rem *api.Remediation) api.RemediationPhase { return rem.CurrentPhase() }
