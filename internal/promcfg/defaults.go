package promcfg

import (
	"fmt"
	"strings"
	"time"
)

// Where the service account's files are, seen from /etc/prometheus. The path is
// relative so that a pod's root may be any folder.
const (
	TokenFile = "../../var/run/secrets/kubernetes.io/serviceaccount/token"
	CAFile    = "../../var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// Port is where every Prometheus server listens.
const Port = 9090

const (
	minInterval = time.Second
	// Prometheus forgets a sample after five minutes. A sample crosses the
	// tiers in up to five intervals, and a cell counts as stale after six; at
	// 40 s both still fit in with a minute to spare.
	maxInterval = 40 * time.Second
	// maxTimeout keeps a hanging target from holding its slot for a whole
	// long interval.
	maxTimeout = 10 * time.Second
)

// NewGlobal derives the global section from one interval, which is that of
// scraping and of rules alike. An interval under a second, not in whole
// seconds, or too long for Prometheus' look-back of five minutes is refused.
//
// No query offset is set: rules read the newest sample that has arrived, which
// is at most two intervals old for each hop, and age and completeness are
// published beside every aggregate. An offset would add its length to the time
// until a failure is seen.
func NewGlobal(interval time.Duration, external map[string]string) (Global, error) {
	if err := CheckInterval(interval); err != nil {
		return Global{}, err
	}
	labels := make(map[string]string, len(external))
	for name, value := range external {
		if err := CheckLabelValue("label "+name, value); err != nil {
			return Global{}, err
		}
		// Prometheus expands environment variables in external labels.
		labels[name] = strings.ReplaceAll(value, "$", "$$")
	}
	return Global{
		ScrapeInterval:     Duration(interval),
		ScrapeTimeout:      Duration(Timeout(interval)),
		EvaluationInterval: Duration(interval),
		ExternalLabels:     labels,
	}, nil
}

// Timeout is how long a scrape may take in an interval.
func Timeout(interval time.Duration) time.Duration { return min(interval*4/5, maxTimeout) }

// CheckInterval refuses an interval that the tiers cannot work with.
func CheckInterval(interval time.Duration) error {
	switch {
	case interval < minInterval || interval%time.Second != 0:
		return fmt.Errorf("interval %s: must be whole seconds, at least %s", interval, minInterval)
	case interval > maxInterval:
		return fmt.Errorf("interval %s: must be at most %s, or a stale cell falls out of Prometheus' look-back of 5m before it is reported", interval, maxInterval)
	}
	return nil
}

// ByteLimit is the most bytes that a body of so many samples may have, a power of two.
// Half a kilobyte for a sample is about three times what the contract's series take.
//
// It changes seldom as a fleet grows. With a new one Prometheus begins anew to keep
// track of what it was told, and hides it for an interval; with a new limit of samples
// alone it does not.
func ByteLimit(samples uint) string {
	const samplesPerMegabyte, least = 1 << 20 / 512, 16
	megabytes := uint(least)
	for megabytes*samplesPerMegabyte < samples {
		megabytes *= 2
	}
	return fmt.Sprintf("%dMB", megabytes)
}
