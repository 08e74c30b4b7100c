// Package alerting renders the configuration of the hub's Alertmanager: who is
// told of which alert, how soon, and which alert silences which. It renders
// only what Alertmanager v0.31 and v0.35 both accept.
package alerting

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// ConfigFile is the name of the rendered file.
const ConfigFile = "alertmanager.yml"

// Options say who is told, and how soon.
type Options struct {
	// NotifyURL is the base URL of the notify relay. Unset means
	// http://notify.pharos-system.svc:9095.
	NotifyURL string
	// Robots are the names of the DingTalk robots, each of which is told of
	// every alert.
	Robots []string
	// GroupWait is how long the first alert of a group waits for others, zero included.
	GroupWait time.Duration
	// GroupInterval is how long a change in a group waits. Zero means 5 m.
	GroupInterval time.Duration
	// Heartbeat is who hears that alerts flow. Nil means nobody.
	Heartbeat *Heartbeat
	// RepeatInterval is how long until an alert that goes on is told of again.
	// Zero means 4 h; critical alerts repeat after a quarter of it.
	RepeatInterval time.Duration
}

// Heartbeat is a web hook outside of the fleet, which calls somebody once it is
// asked no more.
type Heartbeat struct {
	// URLFile holds the address, which Alertmanager reads anew each time. It does
	// not look for it beside its configuration, so the path is absolute.
	URLFile string
	// Interval from one call to the next.
	Interval time.Duration
}

// robotName is what the API allows.
var robotName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// CheckRobotName keeps the name of a robot usable as part of a receiver's name, as
// a path segment, as the name of a folder and as the value of a label.
func CheckRobotName(name string) error {
	if !robotName.MatchString(name) {
		return fmt.Errorf("robot %q: a name has up to 40 small letters, digits and inner dashes", name)
	}
	return nil
}

// Render gives Alertmanager's configuration. The order of robots does not
// matter. It refuses names and durations that Alertmanager or the relay could
// not work with, naming them.
func Render(o Options) (promcfg.Files, error) {
	o.NotifyURL = strings.TrimSuffix(cmp.Or(o.NotifyURL, "http://notify.pharos-system.svc:9095"), "/")
	o.GroupInterval = cmp.Or(o.GroupInterval, 5*time.Minute)
	o.RepeatInterval = cmp.Or(o.RepeatInterval, 4*time.Hour)
	o.Robots = slices.Sorted(slices.Values(o.Robots))
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("alerting: %w", err)
	}
	raw, err := promcfg.Marshal(config{
		Route:        routes(o),
		InhibitRules: inhibitions(),
		Receivers:    receivers(o),
	})
	if err != nil {
		return nil, err
	}
	return promcfg.Files{ConfigFile: raw}, nil
}

func (o Options) check() error {
	if err := promcfg.CheckURL("notify URL", o.NotifyURL, "http", "https"); err != nil {
		return err
	}
	if o.GroupWait < 0 || o.GroupInterval < time.Second || o.RepeatInterval < o.GroupInterval {
		return fmt.Errorf("group wait %s, group interval %s, repeat interval %s: must be at least 0s, 1s, and the group interval",
			o.GroupWait, o.GroupInterval, o.RepeatInterval)
	}
	if err := o.Heartbeat.check(); err != nil {
		return err
	}
	for i, name := range o.Robots {
		if err := CheckRobotName(name); err != nil {
			return err
		}
		if i > 0 && o.Robots[i-1] == name {
			return fmt.Errorf("robot %q: is there twice", name)
		}
	}
	return nil
}

func (h *Heartbeat) check() error {
	if h != nil && (!filepath.IsAbs(h.URLFile) || h.Interval < time.Second) {
		return fmt.Errorf("heartbeat: file %q, interval %s: must be an absolute path, and at least 1s", h.URLFile, h.Interval)
	}
	return nil
}

func receiverName(robot string) string { return "dingtalk-" + robot }

func receivers(o Options) []receiver {
	out := []receiver{{Name: nobody}}
	if o.Heartbeat != nil {
		out = append(out, receiver{Name: heartbeat, Webhooks: []webhook{{URLFile: o.Heartbeat.URLFile}}})
	}
	for _, robot := range o.Robots {
		out = append(out, receiver{
			Name: receiverName(robot),
			Webhooks: []webhook{{
				URL:          o.NotifyURL + "/alertmanager/" + url.PathEscape(robot),
				SendResolved: true,
			}},
		})
	}
	return out
}
