package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonNode is a value of a JSON document that knows its line.
type jsonNode struct {
	line   int
	text   *string // of a string
	items  []*jsonNode
	keys   []string
	fields map[string]*jsonNode
}

// jsonError is where a document cannot be read, and why.
type jsonError struct {
	line int
	text string
}

// at is the value of a key, or nil.
func (n *jsonNode) at(key string) *jsonNode {
	if n == nil {
		return nil
	}
	return n.fields[key]
}

// string is the text of a string.
func (n *jsonNode) string() (string, bool) {
	if n == nil || n.text == nil {
		return "", false
	}
	return *n.text, true
}

// walk visits every value of an object, with its key, in the order of the document.
func (n *jsonNode) walk(visit func(key string, value *jsonNode)) {
	for _, item := range n.items {
		item.walk(visit)
	}
	for _, key := range n.keys {
		visit(key, n.fields[key])
		n.fields[key].walk(visit)
	}
}

// jsonReader reads values with their lines.
type jsonReader struct {
	raw []byte
	dec *json.Decoder
}

// parseJSON reads a document that is one object.
func parseJSON(raw []byte) (*jsonNode, *jsonError) {
	r := &jsonReader{raw, json.NewDecoder(bytes.NewReader(raw))}
	root, err := r.value()
	switch {
	case errors.Is(err, io.EOF):
		return nil, &jsonError{r.line(), "is empty, or ends too early"}
	case err != nil:
		return nil, &jsonError{r.line(), "is no JSON: " + err.Error()}
	case root.fields == nil:
		return nil, &jsonError{root.line, "is no object"}
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &jsonError{r.line(), "goes on after its end"}
	}
	return root, nil
}

// line is the line that has been read up to.
func (r *jsonReader) line() int {
	return 1 + bytes.Count(r.raw[:min(int(r.dec.InputOffset()), len(r.raw))], []byte("\n"))
}

func (r *jsonReader) value() (*jsonNode, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &jsonNode{line: r.line()}
	switch t := token.(type) {
	case string:
		n.text = &t
	case json.Delim:
		if t == '[' {
			return n, r.list(n)
		}
		return n, r.object(n)
	}
	return n, nil
}

func (r *jsonReader) list(n *jsonNode) error {
	for r.dec.More() {
		item, err := r.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.dec.Token() // its end
	return err
}

func (r *jsonReader) object(n *jsonNode) error {
	n.fields = map[string]*jsonNode{}
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("key %v is no string", token)
		}
		if n.fields[key] != nil {
			return fmt.Errorf("key %q is there twice", key)
		}
		value, err := r.value()
		if err != nil {
			return err
		}
		n.keys = append(n.keys, key)
		n.fields[key] = value
	}
	_, err := r.dec.Token() // its end
	return err
}
