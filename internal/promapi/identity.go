package promapi

import (
	"context"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// ErrNameless means that the server's configuration gives it no such label.
var ErrNameless = errors.New("the server's external labels have no such name")

// ExternalLabel is what the server calls itself: one of the external labels in
// the configuration that it runs with. Two URLs can lead to one server; what
// stands in its configuration tells.
func (c *Client) ExternalLabel(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.api.Config(ctx)
	if err != nil {
		return "", fmt.Errorf("asking %s for its configuration: %w", c.url, err)
	}
	var config struct {
		Global struct {
			ExternalLabels map[string]string `yaml:"external_labels"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal([]byte(answer.YAML), &config); err != nil {
		return "", fmt.Errorf("reading the configuration of %s: %w", c.url, err)
	}
	value := config.Global.ExternalLabels[name]
	if value == "" {
		return "", fmt.Errorf("asking %s for its %s: %w", c.url, name, ErrNameless)
	}
	return value, nil
}
