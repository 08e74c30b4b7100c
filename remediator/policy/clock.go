package policy

import "time"

// late says whether a time is over for sure. It is not while every central that answers
// has a clock that is behind ours: then it is ours that has jumped ahead, and a repair
// with which nothing is wrong would fail by it.
func (r *run) late(t time.Time) bool { return r.now.After(t) && !r.ahead() }

func (r *run) ahead() bool {
	answer := false
	for i := range r.ix.centrals {
		c := &r.ix.centrals[i]
		if c.Err != "" {
			continue
		}
		if answer = true; c.ClockSkew.Duration >= -maxSkew {
			return false
		}
	}
	return answer
}
