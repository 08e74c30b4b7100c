package agent

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// flushAt is how much a textWriter gathers before it writes.
	flushAt = 64 << 10
	// maxLabelValue is the longest label value that is written, in bytes. No name
	// of Kubernetes is as long, so that what is cut tells no series from another.
	maxLabelValue = 512
)

// textWriter writes samples in Prometheus' text format. The first error stops
// it, and flush returns it.
type textWriter struct {
	w    io.Writer
	buf  []byte
	name string
	err  error

	labelNames []string // of exportedLabels, computed once
}

func newTextWriter(w io.Writer) *textWriter {
	t := &textWriter{w: w, buf: make([]byte, 0, flushAt+4<<10)}
	for _, key := range exportedLabels {
		t.labelNames = append(t.labelNames, labelName(key))
	}
	return t
}

// gauge begins the samples of a metric that goes up and down.
func (t *textWriter) gauge(name, help string) { t.family(name, help, "gauge") }

// counter begins the samples of a metric that only goes up.
func (t *textWriter) counter(name, help string) { t.family(name, help, "counter") }

func (t *textWriter) family(name, help, kind string) {
	t.name = name
	t.buf = append(t.buf, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample writes one sample of the family. The labels are names and values in turn.
func (t *textWriter) sample(value float64, labels ...string) {
	t.buf = append(t.buf, t.name...)
	separator := byte('{')
	for i := 0; i+1 < len(labels); i += 2 {
		t.buf = append(t.buf, separator)
		t.buf = append(t.buf, labels[i]...)
		t.buf = append(t.buf, '=', '"')
		t.buf = appendEscaped(t.buf, labels[i+1])
		t.buf = append(t.buf, '"')
		separator = ','
	}
	if len(labels) > 1 {
		t.buf = append(t.buf, '}')
	}
	t.buf = append(t.buf, ' ')
	t.buf = strconv.AppendFloat(t.buf, value, 'g', -1, 64)
	t.buf = append(t.buf, '\n')
	if len(t.buf) >= flushAt {
		_ = t.flush() // remembered; the last flush returns it
	}
}

func (t *textWriter) flush() error {
	if t.err == nil {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
	return t.err
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// appendEscaped appends a label value. Nearly all are plain and short, so that
// one look at each byte costs less than asking the library three questions.
func appendEscaped(buf []byte, value string) []byte {
	value = value[:min(len(value), maxLabelValue)]
	for i := range len(value) {
		if c := value[i]; c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '\n' {
			return append(buf, escaped(value)...)
		}
	}
	return append(buf, value...)
}

// escaped replaces invalid UTF-8, the half of a character that was cut included,
// because it would cost the reader the whole response.
func escaped(value string) string {
	return labelEscaper.Replace(strings.ToValidUTF8(value, "\uFFFD"))
}
