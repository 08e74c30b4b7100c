package promcfg

// Federate is a job that reads series from the Prometheus servers of the tier
// below, with everything a link needs:
//   - labels and timestamps are the sender's, so that age can be told;
//   - a series that the sender no longer has, and every series of a sender that
//     does not answer, ends at once instead of after the look-back of five
//     minutes: a node that is ready again must not look sick for minutes, and a
//     sum must drop together with its completeness;
//   - protobuf comes first, because native histograms pass in no other way;
//   - size is bounded.
func Federate(name string, match []string, samples uint) ScrapeConfig {
	yes := true
	return ScrapeConfig{
		JobName:                  name,
		MetricsPath:              "/federate",
		Params:                   map[string][]string{"match[]": match},
		HonorLabels:              true,
		HonorTimestamps:          &yes,
		TrackTimestampsStaleness: true,
		ScrapeNativeHistograms:   &yes,
		ScrapeProtocols:          []string{"PrometheusProto", "OpenMetricsText1.0.0", "PrometheusText0.0.4"},
		SampleLimit:              samples,
		BodySizeLimit:            ByteLimit(samples),
	}
}
