package agent

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// flushAt is how much a textWriter gathers before it writes.
const flushAt = 64 << 10

// textWriter writes gauges in Prometheus' text format. The first error stops
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

// family begins the samples of one metric.
func (t *textWriter) family(name, help string) {
	t.name = name
	t.buf = append(t.buf, "# HELP "+name+" "+help+"\n# TYPE "+name+" gauge\n"...)
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
	t.buf = append(t.buf, '}', ' ')
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

// appendEscaped appends a label value. Invalid UTF-8 is replaced, because it
// would cost the reader the whole response.
func appendEscaped(buf []byte, value string) []byte {
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	if strings.ContainsAny(value, "\\\n\"") {
		value = labelEscaper.Replace(value)
	}
	return append(buf, value...)
}
