package lint

import (
	"fmt"
	"regexp"
	"strings"
	"text/template/parse"

	"go.yaml.in/yaml/v3"
)

var (
	// labelled are the labels that a template names.
	labelled = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)`)
	// verbs are what printf fills in.
	verbs = strings.NewReplacer("%q", `"x"`, "%s", "x", "%v", "x", "%d", "1")
)

// given are the variables that Prometheus gives to every template.
const given = `{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}`

// checkText checks the queries and the labels in a template.
func (f *ruleFile) checkText(text string, node *yaml.Node, s shape) {
	tree := parse.New("text")
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(given+text, "", "", set); err != nil {
		f.found(f.name, node.Line, fmt.Sprintf("is no template: %s", err))
		return
	}
	for _, t := range set {
		visit(t.Root, func(pipe *parse.PipeNode) { f.checkQueries(pipe, node) })
	}
	for _, m := range labelled.FindAllStringSubmatch(text, -1) {
		if !s.has(m[1]) && m[1] != "alertname" {
			f.found(f.name, f.lineOf(node.Line, m[0]), fmt.Sprintf("names label %q, which the alert does not have; it has %s", m[1], s))
		}
	}
}

// checkQueries checks what a pipeline of a template asks. A query that stands
// there only when the template runs is refused, because nobody could say what it
// reads.
func (f *ruleFile) checkQueries(pipe *parse.PipeNode, node *yaml.Node) {
	for i, cmd := range pipe.Cmds {
		if !calls(cmd, "query") {
			continue
		}
		var asked *parse.StringNode
		switch {
		case len(cmd.Args) == 2:
			asked = written(cmd.Args[1])
		case len(cmd.Args) == 1 && i > 0:
			asked = writtenBy(pipe.Cmds[i-1])
		}
		if asked == nil {
			f.found(f.name, f.lineOf(node.Line, "query"), fmt.Sprintf(
				"asks %q, of which nobody can tell what it reads before it runs; write the query in quotes, or in quotes for printf", pipe))
			continue
		}
		line := f.lineOf(node.Line, asked.Quoted)
		f.query(f.tier, f.name, verbs.Replace(asked.Text), func(int) int { return line })
	}
}

// written is the string that stands for a query as an argument.
func written(arg parse.Node) *parse.StringNode {
	switch n := arg.(type) {
	case *parse.StringNode:
		return n
	case *parse.PipeNode:
		if len(n.Cmds) == 1 && len(n.Decl) == 0 {
			return writtenBy(n.Cmds[0])
		}
	}
	return nil
}

// writtenBy is the string that a command gives, or that printf fills in.
func writtenBy(cmd *parse.CommandNode) *parse.StringNode {
	switch {
	case len(cmd.Args) == 1:
		return written(cmd.Args[0])
	case len(cmd.Args) > 1 && calls(cmd, "printf"):
		format, _ := cmd.Args[1].(*parse.StringNode)
		return format
	}
	return nil
}

// calls tells whether a command is a call of the function.
func calls(cmd *parse.CommandNode, name string) bool {
	ident, ok := cmd.Args[0].(*parse.IdentifierNode)
	return ok && ident.Ident == name
}

// visit finds every pipeline under a node.
func visit(n parse.Node, each func(*parse.PipeNode)) {
	for _, child := range inside(n) {
		visit(child, each)
	}
	if pipe, ok := n.(*parse.PipeNode); ok && pipe != nil {
		each(pipe)
	}
}

// inside are the nodes right under a node.
func inside(n parse.Node) []parse.Node {
	switch n := n.(type) {
	case *parse.ActionNode:
		return []parse.Node{n.Pipe}
	case *parse.IfNode:
		return []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.RangeNode:
		return []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		return []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.TemplateNode:
		return []parse.Node{n.Pipe}
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	}
	return listed(n)
}

// listed are the nodes of a node that holds any number of them. There may be
// none of it: an if without an else has a list that is nil.
func listed(n parse.Node) []parse.Node {
	var out []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			out = n.Nodes
		}
	case *parse.PipeNode:
		if n == nil {
			return nil
		}
		for _, cmd := range n.Cmds {
			out = append(out, cmd.Args...)
		}
	}
	return out
}
