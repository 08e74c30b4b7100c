package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Parse reads a contract, refuses unknown fields, and returns everything that
// is wrong with it as Problems. The file is what they name.
func Parse(file string, raw []byte) (Contract, error) {
	var c Contract
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return Contract{}, DecodeProblems(file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Contract{}, Problems{{File: file, Text: "has more than one document; put everything into the first"}}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return Contract{}, DecodeProblems(file, err)
	}
	check := contractCheck{file: file, seen: map[string]int{}}
	if len(c.Series)+len(c.Raw) == 0 {
		check.found(&doc, "declares no series")
	}
	check.each(&doc, c)
	if err := check.problems.Err(); err != nil {
		return Contract{}, err
	}
	return c, nil
}

// Lines says in which line of a contract each series is declared.
func Lines(raw []byte) map[string]int {
	var doc yaml.Node
	out := map[string]int{}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return out // Parse says why
	}
	for _, section := range []string{"series", "raw"} {
		for _, entry := range Descend(&doc, section).Content {
			if name := child(entry, "name"); name != nil {
				out[name.Value] = name.Line
			}
		}
	}
	return out
}

// yamlLine is how the YAML library begins what it says of a line.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// DecodeProblems splits up what the YAML library has to say about a file.
func DecodeProblems(file string, err error) Problems {
	texts := []string{err.Error()}
	if errors.Is(err, io.EOF) {
		texts = []string{"is empty; it must declare at least one series"}
	}
	if several, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = several.Errors
	}
	var out Problems
	for _, text := range texts {
		p := Problem{File: file, Text: text}
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			p.Line, _ = strconv.Atoi(m[1]) // digits; a number too long for a line is none
			p.Text = m[2]
		}
		out = append(out, p)
	}
	return out
}

// contractCheck collects what is wrong with a contract.
type contractCheck struct {
	file     string
	problems Problems
	// seen are the lines of the names that there have been.
	seen map[string]int
	// perCluster counts what a central holds of each business cluster.
	perCluster uint
}

func (c *contractCheck) found(at *yaml.Node, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.file, Line: at.Line, Text: fmt.Sprintf(format, args...)})
}

func (c *contractCheck) each(doc *yaml.Node, contract Contract) {
	for i, s := range contract.Series {
		c.series(item{c, Descend(doc, "series", i), fmt.Sprintf("series[%d] %q: ", i, s.Name)}, s)
	}
	for i, r := range contract.Raw {
		c.raw(item{c, Descend(doc, "raw", i), fmt.Sprintf("raw[%d] %q: ", i, r.Name)}, r)
	}
	if c.perCluster > MaxPerCluster {
		c.found(Descend(doc, "series"), "a central would hold %d series of each business cluster, at most %d fit its size: "+
			"lower max.series, keep a series at a lower tier, or mark what is there only where something is wrong with exception: true",
			c.perCluster, MaxPerCluster)
	}
}

// item is one declaration, and where it is.
type item struct {
	*contractCheck
	node  *yaml.Node
	place string
}

func (i item) wrong(path []any, format string, args ...any) {
	i.found(Descend(i.node, path...), i.place+format, args...)
}

func at(path ...any) []any { return path }

func (c *contractCheck) series(i item, s Series) {
	i.common(s.Name, s.Help, s.Kind, s.Labels)
	i.oneOf(at("kind"), "kind", string(s.Kind), string(Gauge), string(Counter), string(Info), string(Histogram), string(Native))
	i.oneOf(at("max", "per"), "max.per", s.Max.Per, "cluster", "cell", "geography", "fleet")
	i.text("unit", s.Unit)
	i.most(s)
	if s.From.rank() < 0 || s.To.rank() < s.From.rank() {
		i.wrong(at("from"), "from %q to %q: must be edge, cascade or central, upwards", s.From, s.To)
		return
	}
	i.size(s)
}

// mostSeries is far more than a server could hold of one name.
const mostSeries = 10_000_000

// most refuses a number of series that is none, as it is written: the library
// that reads YAML makes a whole number of a fraction.
func (i item) most(s Series) {
	switch written := content(Descend(i.node, "max", "series")); {
	case s.Max.Series == 0:
		i.wrong(at("max", "series"), "max.series: is 0, so the link would break on the first")
	case written.Tag != "!!int" || s.Max.Series > mostSeries:
		i.wrong(at("max", "series"), "max.series: %s is no whole number from 1 to %d", written.Value, mostSeries)
	}
}

// text refuses what is not there, and what the reference page and the texts of
// dashboards could not hold.
func (i item) text(field, value string) {
	switch {
	case value == "":
		i.wrong(at(field), "%s: is empty", field)
	case strings.ContainsFunc(value, unicode.IsControl) || strings.Contains(value, "|") || strings.Contains(value, "{{"):
		i.wrong(at(field), "%s: %q has what would break the page that is made of it: a line's end or another control character, | or {{", field, value)
	}
}

// size bounds what a central holds of each business cluster.
func (i item) size(s Series) {
	ofCluster := slices.Contains(s.Labels, "cluster")
	switch {
	case s.To != Central || s.Exception:
	case s.Max.Per == "cluster":
		i.perCluster += s.Max.Series
	case ofCluster:
		i.wrong(at("max", "per"), "max.per: is %q for a series of a cluster that reaches the central: "+
			"say how many there are per cluster, or mark it with exception: true if it is there only where something is wrong", s.Max.Per)
	}
	if s.Max.Per == "cluster" && !ofCluster {
		i.wrong(at("labels"), "labels: has no cluster, but max.per is cluster")
	}
}

func (c *contractCheck) raw(i item, r Raw) {
	i.common(r.Name, r.Help, r.Kind, r.Labels)
	i.oneOf(at("kind"), "kind", string(r.Kind), "", string(Gauge), string(Counter), string(Info), string(Histogram), string(Native))
	i.oneOf(at("tier"), "tier", string(r.Tier), string(Edge), string(Cascade), string(Central), string(everyTier))
	i.text("source", r.Source)
}

func (i item) common(name, help string, kind Kind, labels []string) {
	if !model.LegacyValidation.IsValidMetricName(name) {
		i.wrong(at("name"), "name: is no metric name")
	}
	for _, full := range kind.Names(name) {
		if line, twice := i.seen[full]; twice {
			i.wrong(at("name"), "name: %s is declared twice, first in line %d", full, line)
			continue
		}
		i.seen[full] = Descend(i.node, "name").Line
	}
	i.text("help", help)
	for n, l := range labels {
		switch {
		case !model.LegacyValidation.IsValidLabelName(l) || slices.Contains(labels[:n], l):
			i.wrong(at("labels", n), "labels[%d] %q: is no label name, or is there twice", n, l)
		case kind == Histogram && l == "le":
			i.wrong(at("labels", n), "labels[%d] %q: is that of every histogram, leave it out", n, l)
		}
	}
}

func (i item) oneOf(path []any, field, got string, want ...string) {
	if !slices.Contains(want, got) {
		i.wrong(path, "%s: %q is none of %q", field, got, want)
	}
}

// Descend follows keys and indices as far as they lead, so that there is always
// a line to name.
func Descend(node *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		next := child(node, step)
		if next == nil {
			return node
		}
		node = next
	}
	return node
}

func child(node *yaml.Node, step any) *yaml.Node {
	node = content(node)
	switch step := step.(type) {
	case int:
		if node.Kind == yaml.SequenceNode && step < len(node.Content) {
			return node.Content[step]
		}
	case string:
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	}
	return nil
}

// content is what a document holds and an alias stands for.
func content(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
