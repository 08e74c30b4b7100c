package lint

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// checkPolicy checks every query in a file of Kubernetes objects. The fields that
// hold one are called expr or query. Policies read at a central.
func (l *linter) checkPolicy(f File) {
	if l.tooLarge(f) {
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Content))
	objects := 0
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			l.problems = append(l.problems, rules.DecodeProblems(f.Name, err)...)
			return
		}
		if rules.Descend(&doc, "kind").Kind != yaml.ScalarNode || rules.Descend(&doc, "apiVersion").Kind != yaml.ScalarNode {
			l.found(f.Name, doc.Line, "is no Kubernetes object: it has no apiVersion or no kind")
		}
		l.policyNode(f.Name, &doc)
		objects++
	}
	if objects == 0 {
		l.found(f.Name, 0, "is empty; a file of policies has at least one")
	}
}

func (l *linter) policyNode(file string, n *yaml.Node) {
	for i, c := range n.Content {
		asks := n.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains([]string{"expr", "query"}, n.Content[i-1].Value)
		if asks && c.Kind == yaml.ScalarNode {
			l.query(rules.Central, file, c.Value, lineIn(c))
		}
		l.policyNode(file, c)
	}
}
