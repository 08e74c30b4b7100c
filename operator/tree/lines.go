package tree

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lines knows on which line of a file each field of a document stands.
type lines struct {
	file string
	root *yaml.Node
}

// at is where the value of a path begins.
func (l lines) at(path string) Place { return l.find(path, "") }

// find is where the value of a path under another one begins, or of as much of
// it as there is.
func (l lines) find(under, path string) Place {
	return l.walk(append(steps(under), steps(path)...)...)
}

// walk is find by steps, whose names may have dots.
func (l lines) walk(steps ...string) Place {
	node, line := l.root, l.root.Line
	for _, step := range steps {
		key, value := child(node, step)
		if value == nil {
			break
		}
		node, line = value, key.Line
	}
	return Place{l.file, line}
}

// steps divides a path such as spec.items[2].name at its dots and brackets.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// child is the field or the item of a node, and the node that stands for it.
func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}
