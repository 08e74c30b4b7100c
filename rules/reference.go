package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// Reference is the contract as a page of documentation, in Markdown.
func (c Contract) Reference() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from rules/contract.yaml by go generate ./rules. DO NOT EDIT. -->
# The contract

Every series that crosses a tier, and every series that rules may read. Above the tier that records it, a series also carries the
labels that say which servers it came through (` + "`edge_replica`, `edge_shard`, `cascade_replica`, `cascade_shard`" + `): aggregate them
away, for example with ` + "`max by (geography, region, cell, cluster) (…)`" + `, before you count, sum or compare; by min where
servers that disagree are to be believed in the lesser value, as ` + "`pharos contract check`" + ` insists. A histogram is the series
` + "`_bucket` (with the label `le`), `_sum` and `_count`" + ` of its name. A central holds at most {{max}} series of each business cluster, and
beside them those that are there only where something is wrong.

## Recorded series
| series | kind | unit | labels | recorded at | reaches | at most |
|---|---|---|---|---|---|---|
`)
	for _, s := range c.Series {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
			s.Name, s.Kind, s.Unit, labelList(s.Labels), s.origin(), s.To, s.most())
	}
	b.WriteString("\n### What they mean\n")
	for _, s := range c.Series {
		fmt.Fprintf(&b, "- `%s`: %s%s\n", s.Name, s.Help, s.worse())
	}
	b.WriteString("\n## Raw series\nScraped, and never leaving the tier that scrapes them.\n\n| series | tier | source | labels | meaning |\n|---|---|---|---|---|\n")
	for _, r := range c.Raw {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Tier, r.Source, labelList(r.Labels), r.Help)
	}
	return strings.ReplaceAll(b.String(), "{{max}}", strconv.Itoa(MaxPerCluster))
}

func (s Series) origin() string {
	if s.Rendered {
		return string(s.From) + ", from the topology"
	}
	return string(s.From)
}

func (s Series) most() string {
	most := fmt.Sprintf("%d per %s", s.Max.Series, s.Max.Per)
	if s.Exception {
		most += ", only where something is wrong"
	}
	return most
}

func (s Series) worse() string {
	if s.Lesser {
		return " Of servers that disagree the lesser value counts."
	}
	return ""
}

func labelList(labels []string) string {
	if len(labels) == 0 {
		return "none"
	}
	return "`" + strings.Join(labels, "`, `") + "`"
}
