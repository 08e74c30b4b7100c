package rules

import (
	"fmt"
	"strings"
)

// Reference is the contract as a page of documentation, in Markdown.
func (c Contract) Reference() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from rules/contract.yaml by go generate ./rules. DO NOT EDIT. -->
# The contract

Every series that crosses a tier, and every series that rules may read. Above the tier that records it, a series also carries the
replica labels (` + "`edge_replica`, `cascade_replica`" + `) of the servers it came through: aggregate them away, for example with
` + "`max by (geography, region, cell, cluster) (…)`" + `, before you count, sum or compare.

## Recorded series
| series | kind | unit | labels | recorded at | reaches | at most |
|---|---|---|---|---|---|---|
`)
	for _, s := range c.Series {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %d per %s |\n",
			s.Name, s.Kind, s.Unit, labelList(s.Labels), s.From, s.To, s.Max.Series, s.Max.Per)
	}
	b.WriteString("\n### What they mean\n")
	for _, s := range c.Series {
		fmt.Fprintf(&b, "- `%s`: %s\n", s.Name, s.Help)
	}
	b.WriteString("\n## Raw series\nScraped, and never leaving the tier that scrapes them.\n\n| series | tier | source | labels | meaning |\n|---|---|---|---|---|\n")
	for _, r := range c.Raw {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Tier, r.Source, labelList(r.Labels), r.Help)
	}
	return b.String()
}

func labelList(labels []string) string {
	if len(labels) == 0 {
		return "none"
	}
	return "`" + strings.Join(labels, "`, `") + "`"
}
