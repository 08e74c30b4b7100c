package controller

import (
	"fmt"
	"time"
)

// maxJump is how much more, or less, than really passed a clock may have moved between
// two rounds. One that is slowly put right stays far below it.
const maxJump = 5 * time.Second

// clock compares the time of day with the time that passes, which nobody sets.
type clock struct {
	day    time.Time
	passed time.Duration
}

// steady fails once when the clock has jumped since it was asked last, as when it was set
// or the machine was suspended: what was read before and after cannot be compared, and
// what seems to be over may not be.
func (c *clock) steady(day time.Time, passed time.Duration) error {
	before := *c
	*c = clock{day.Round(0), passed} // without what Go takes for the time that passes
	if before.day.IsZero() {
		return nil
	}
	jump := c.day.Sub(before.day) - (passed - before.passed)
	if jump.Abs() <= maxJump {
		return nil
	}
	return fmt.Errorf("nothing is decided in this round: the clock of this remediator moved by %s while %s passed; "+
		"if it goes on, look at the time synchronisation of its host", c.day.Sub(before.day).Round(time.Millisecond), (passed - before.passed).Round(time.Millisecond))
}
