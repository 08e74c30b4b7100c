package fleettest

// Trouble is what is wrong in a world now. A test changes it between rounds.
type Trouble struct {
	// Dead are edge servers that neither scrape nor answer, by the name of their
	// cell, their shard and their replica: "asia-1-0-a".
	Dead map[string]bool
	// Sick is the share of everything that fails: of nodes, pods, requests, disks.
	Sick float64
	// Gaps is the share of scrapes that get no answer.
	Gaps float64
	// Restarts lets everything that is scraped restart now and then, so that its
	// counters begin anew.
	Restarts bool
}

func (t Trouble) dead(e *edgeServer) bool { return t.Dead[e.name()] }
