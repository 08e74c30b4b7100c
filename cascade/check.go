package cascade

import (
	"fmt"
	"regexp"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// selectable is what Kubernetes allows as the value of a label.
var selectable = regexp.MustCompile(`^[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

func (o Options) check() error {
	if o.Shard < 0 {
		return fmt.Errorf("shard %d: shards are numbered from 0", o.Shard)
	}
	if len(o.Self) == 0 {
		if err := promcfg.CheckLabelValue("label geography", o.Geography); err != nil {
			return err
		}
		if !selectable.MatchString(o.Geography) {
			return fmt.Errorf("name %q cannot select pods: it has up to 63 letters, digits and inner dashes, dots and underscores", o.Geography)
		}
		if err := promcfg.CheckURL("API server URL", o.APIServer.BaseURL(), "https"); err != nil {
			return err
		}
	}
	for _, address := range o.Self {
		if err := promcfg.CheckAddress("own server", address); err != nil {
			return err
		}
	}
	names, endpoints := map[string]bool{}, map[string]string{}
	for _, c := range o.Cells {
		if names[c.Name] {
			return fmt.Errorf("cell %q: is there twice", c.Name)
		}
		names[c.Name] = true
		if err := c.check(endpoints); err != nil {
			return err
		}
	}
	return nil
}

// check refuses an endpoint that another cell has, too: its series would be
// counted under the wrong name.
func (c Cell) check(owner map[string]string) error {
	if err := promcfg.CheckLabelValue("name of a cell", c.Name); err != nil {
		return err
	}
	if err := promcfg.CheckLabelValue(fmt.Sprintf("cell %q: region", c.Name), c.Region); err != nil {
		return err
	}
	for _, endpoint := range c.Endpoints {
		if err := promcfg.CheckAddress(fmt.Sprintf("cell %q: endpoint", c.Name), endpoint); err != nil {
			return err
		}
		if other, taken := owner[promcfg.Endpoint(endpoint)]; taken {
			return fmt.Errorf("cell %q: endpoint %s belongs to cell %q already", c.Name, endpoint, other)
		}
		owner[promcfg.Endpoint(endpoint)] = c.Name
	}
	return nil
}
