package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// health is what readiness is told from.
type health struct {
	leading bool
	leader  string
	last    time.Time
	err     error
}

// stale is how many intervals a leader may go without a good round.
const stale = 6

// Ready fails unless this process waits for a known leader, or leads and has
// read the hub and every central within the last few intervals.
func (c *Controller) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health
	switch {
	case !h.leading && h.leader == "":
		return errors.New("no leader is known yet")
	case !h.leading:
		return nil
	case h.err != nil:
		return h.err
	case h.last.IsZero():
		return errors.New("the first round is not done yet")
	}
	limit := stale*c.options.Interval + 30*time.Second
	if age := c.now().Sub(h.last); age > limit {
		return fmt.Errorf("the last round ended %s ago", age.Round(time.Second))
	}
	return nil
}

func (c *Controller) leads(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = health{leading: yes, leader: c.health.leader}
	c.metrics.leader(yes)
}

func (c *Controller) follows(leader string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health.leader = leader
}

// finished keeps the outcome of a round. The same trouble is logged once.
func (c *Controller) finished(start time.Time, err error) {
	c.mu.Lock()
	before := c.health.err
	c.health.last, c.health.err = c.now(), err
	c.mu.Unlock()
	c.metrics.round(c.now().Sub(start), err)
	switch {
	case err != nil && trouble(before) != trouble(err):
		c.log.Error("Round failed", slog.Any("error", err))
	case err == nil && before != nil:
		c.log.Info("Round succeeded again")
	}
}

// trouble is what an error says, without the port on our side of a connection,
// which is another in every round.
func trouble(err error) string {
	if err == nil {
		return ""
	}
	return regexp.MustCompile(`:\d+->`).ReplaceAllString(err.Error(), "->")
}
