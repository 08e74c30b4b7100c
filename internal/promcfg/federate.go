package promcfg

import "time"

// Federation is what one job reads from the Prometheus servers of the tier below.
type Federation struct {
	Job string
	// Match are the selectors of the series that are asked for.
	Match []string
	// Pass is what is kept of the answers.
	Pass []Relabel
	// Samples is the most that one server may answer with. Above it, nothing of
	// the answer is taken, and up is 0.
	Samples uint
	// Link and Interval say how the servers are asked.
	Link     Link
	Interval time.Duration
}

// Scrape is a job that reads the servers, with everything a link needs:
//   - labels and timestamps are the sender's, so that age can be told;
//   - a series that the sender no longer has, and every series of a sender that
//     does not answer, ends at once instead of after the look-back of five
//     minutes: a node that is ready again must not look sick for minutes, and a
//     sum must drop together with its completeness;
//   - protobuf comes first, because native histograms pass in no other way;
//   - a native histogram with custom buckets, which the sender can serve only as
//     a classic one, becomes what it was;
//   - size is bounded, and what nobody asked for is dropped.
func (f Federation) Scrape() ScrapeConfig {
	yes := true
	job := ScrapeConfig{
		JobName:                  f.Job,
		MetricsPath:              "/federate",
		Params:                   map[string][]string{"match[]": f.Match},
		HonorLabels:              true,
		HonorTimestamps:          &yes,
		TrackTimestampsStaleness: true,
		ScrapeNativeHistograms:   &yes,
		ConvertClassicHistograms: true,
		ScrapeProtocols:          []string{"PrometheusProto", "OpenMetricsText1.0.0", "PrometheusText0.0.4"},
		SampleLimit:              f.Samples,
		ExtraScrapeMetrics:       &yes, // the limit, beside what was scraped
		BodySizeLimit:            ByteLimit(f.Samples),
		Authorization:            f.Link.Credentials.authorization(),
		TLS:                      f.Link.Credentials.tls(),
		MetricRelabel:            f.Pass,
	}
	if f.Link.Credentials.HTTPS {
		job.Scheme = "https"
	}
	if f.Link.Timeout != 0 {
		job.ScrapeTimeout = Duration(f.Link.Scrape(f.Interval))
	}
	return job
}

// CheckPull refuses credentials that servers which are asked by plain HTTP would
// not use. The error begins with what.
func (l Link) CheckPull(what string) error {
	if l.Credentials.HTTPS {
		return nil
	}
	return l.Credentials.overHTTP(what)
}
