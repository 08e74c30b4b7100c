package promcfg

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

// RemoteWrite is one server that everything is written to.
type RemoteWrite struct {
	URL                  string         `yaml:"url"`
	Name                 string         `yaml:"name"`
	RemoteTimeout        model.Duration `yaml:"remote_timeout"`
	ProtobufMessage      WriteMessage   `yaml:"protobuf_message"`
	SendNativeHistograms bool           `yaml:"send_native_histograms"`
	WriteRelabel         []Relabel      `yaml:"write_relabel_configs"`
	Authorization        *Authorization `yaml:"authorization,omitempty"`
	TLS                  *TLS           `yaml:"tls_config,omitempty"`
	Queue                Queue          `yaml:"queue_config"`
	Metadata             WriteMetadata  `yaml:"metadata_config"`
}

// WriteMessage is a version of the protocol, by the name of its message.
type WriteMessage string

// The protocol's versions. A receiver of version 2.0 knows the first, too.
const (
	WriteV1 WriteMessage = "prometheus.WriteRequest"
	WriteV2 WriteMessage = "io.prometheus.write.v2.Request"
)

// Queue is what a sender holds in memory, and how it tries again.
type Queue struct {
	Capacity          int            `yaml:"capacity"`
	MaxShards         int            `yaml:"max_shards"`
	MaxSamplesPerSend int            `yaml:"max_samples_per_send"`
	BatchSendDeadline model.Duration `yaml:"batch_send_deadline"`
	MaxBackoff        model.Duration `yaml:"max_backoff"`
	RetryOnRateLimit  bool           `yaml:"retry_on_http_429"`
}

// WriteMetadata says whether type, unit and help are sent.
type WriteMetadata struct {
	Send bool `yaml:"send"`
}

// Storage is how a server keeps samples.
type Storage struct {
	TSDB TSDB `yaml:"tsdb"`
}

// TSDB is the part of Storage that the local database reads.
type TSDB struct {
	OutOfOrderTimeWindow model.Duration `yaml:"out_of_order_time_window"`
}

// outOfOrder is how late a sample may be written. A sender's log goes back two
// to three hours; Prometheus takes nothing older than an hour by itself.
const outOfOrder = 4 * time.Hour

// Receiving is how a server keeps samples that are written to it.
func Receiving() *Storage { return &Storage{TSDB: TSDB{OutOfOrderTimeWindow: Duration(outOfOrder)}} }

// Stream is what a server writes, the same to each of its receivers.
type Stream struct {
	// Message unset means WriteV2.
	Message WriteMessage
	// Pass says which series are written, with which labels.
	Pass []Relabel
	// Series is the most that may be written in one Interval.
	Series   uint
	Interval time.Duration
	// Timeout of one request. Unset means 10 s.
	Timeout     time.Duration
	Credentials Credentials
}

// To writes the stream to a receiver.
//
// No metadata is sent: what a rule records has none in Prometheus, and of what
// is scraped it would name series that stay. The contract says what each means.
func (s Stream) To(r Receiver) RemoteWrite {
	return RemoteWrite{
		URL: r.URL, Name: r.Name,
		RemoteTimeout:        Duration(cmp.Or(s.Timeout, maxTimeout)),
		ProtobufMessage:      cmp.Or(s.Message, WriteV2),
		SendNativeHistograms: true,
		WriteRelabel:         slices.Concat(s.Pass, r.Relabel),
		Authorization:        s.Credentials.authorization(),
		TLS:                  s.Credentials.tls(),
		Queue:                queue(s.Series, s.Interval),
	}
}

// ToEach writes the stream to each of the receivers, by name: their order does
// not matter.
func (s Stream) ToEach(receivers []Receiver) []RemoteWrite {
	byName := slices.SortedFunc(slices.Values(receivers), func(a, b Receiver) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]RemoteWrite, 0, len(byName))
	for _, r := range byName {
		out = append(out, s.To(r))
	}
	return out
}

// queue sizes a sender for a number of series. Memory is bounded by MaxShards
// times Capacity and one batch, and is used only while the receiver is slow or
// away; what does not fit waits in the log on disk.
func queue(series uint, interval time.Duration) Queue {
	const (
		batch = 2000
		// A request to another continent takes half a second at worst.
		perShard = 2 * batch
		// After a cut, what waits goes out five times as fast as it came in: an
		// hour in a quarter of one.
		catchUp   = 5
		maxShards = 50
	)
	perSecond := float64(series) / max(interval, time.Second).Seconds()
	return Queue{
		Capacity:          5 * batch,
		MaxShards:         min(maxShards, 1+int(perSecond*catchUp/perShard)),
		MaxSamplesPerSend: batch,
		BatchSendDeadline: Duration(min(interval/5, 5*time.Second)),
		MaxBackoff:        Duration(min(interval, 5*time.Second)),
		RetryOnRateLimit:  true,
	}
}
