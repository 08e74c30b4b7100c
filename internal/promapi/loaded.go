package promapi

import (
	"context"
	"fmt"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// Loaded is what a server says of the configuration that it runs with.
type Loaded struct {
	// Config is the text of it, as the server writes it.
	Config string
	// Refused says that a newer one was there, which the server did not take.
	Refused bool
	// Since is when it was loaded by the process that runs now, by the server's clock.
	Since time.Time
}

// Loaded asks what configuration the server runs with.
func (c *Client) Loaded(ctx context.Context) (Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// The configuration comes first: one that is loaded between the two questions
	// makes an old text look younger than it is, and never a new one older.
	config, err := c.api.Config(ctx)
	var now promv1.RuntimeinfoResult
	if err == nil {
		now, err = c.api.Runtimeinfo(ctx)
	}
	if err != nil {
		return Loaded{}, fmt.Errorf("asking %s for its configuration: %w", c.url, err)
	}
	since := now.LastConfigTime
	if now.StartTime.After(since) {
		since = now.StartTime
	}
	return Loaded{Config: config.YAML, Refused: !now.ReloadConfigSuccess, Since: since}, nil
}
