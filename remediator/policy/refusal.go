package policy

import "time"

// Refusal is a machine whose repair the hub did not let be written down, as for want of
// a right, a quota or a webhook. Until then it is not tried again.
type Refusal struct {
	MachineUID string    `json:"machineUID"`
	At         time.Time `json:"at"`
	Until      time.Time `json:"until"`
	Message    string    `json:"message"`
}

func (ix *index) addRefusals() {
	ix.refused = make(map[string]*Refusal, len(ix.snapshot.Refusals))
	for i := range ix.snapshot.Refusals {
		ix.refused[ix.snapshot.Refusals[i].MachineUID] = &ix.snapshot.Refusals[i]
	}
}

// unwritable says that the record of the repair was refused a short while ago. It is
// asked last: whatever else speaks against the repair is worth more to whoever reads it.
func (r *run) unwritable(s subject) (Reason, string) {
	refusal := r.ix.refused[s.machine.UID]
	if refusal == nil || !r.now.Before(refusal.Until) {
		return "", ""
	}
	r.lookAt(refusal.Until)
	return ReasonRequestFailed, refusal.String()
}

func (f *Refusal) String() string {
	return clip(f.Message, 384) + "; it is tried again at " + f.Until.UTC().Format(time.RFC3339)
}
