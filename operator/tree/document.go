package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/crd"
)

// maxFile bounds one file of descriptions.
const maxFile = 64 << 20

// reader collects what it finds, and everything that is wrong with it.
type reader struct {
	federations []Place
	fleet       Fleet
	errs        []error
}

func (r *reader) file(path string) error {
	f, err := openRegular(os.OpenFile, path)
	if err != nil {
		return fmt.Errorf("reading descriptions: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("reading descriptions: %w", err)
	}
	if len(raw) > maxFile {
		return fmt.Errorf("%s: is larger than %d MiB; divide it", path, maxFile>>20)
	}
	r.documents(path, raw)
	return nil
}

// documents reads a file twice, side by side: as kubectl does for what its
// fields are, and by a parser that knows on which line they stand.
func (r *reader) documents(path string, raw []byte) {
	values, nodes := yamlv2.NewDecoder(bytes.NewReader(raw)), yaml.NewDecoder(bytes.NewReader(raw))
	values.SetStrict(true)
	start := Place{path, 1}
	for {
		var value any
		var node yaml.Node
		wrong := values.Decode(&value)
		err := nodes.Decode(&node)
		var fields *yamlv2.TypeError // of a document that could be read to its end
		switch {
		case errors.Is(wrong, io.EOF) && errors.Is(err, io.EOF):
			return
		case wrong != nil && !errors.As(wrong, &fields):
			r.unreadable(start, wrong)
			return
		case err != nil:
			r.unreadable(start, err)
			return
		}
		start.Line = node.Content[0].Line
		if wrong != nil {
			r.unreadable(start, wrong)
		} else if value != nil { // there are more than comments
			r.document(value, lines{path, node.Content[0]})
		}
	}
}

// complaint is how a parser of YAML says on which line it found what.
var complaint = regexp.MustCompile(`line (\d+): (.*)`)

// unreadable says what is no YAML, on the lines that the parser names.
func (r *reader) unreadable(start Place, err error) {
	found := complaint.FindAllStringSubmatch(err.Error(), -1)
	if len(found) == 0 {
		r.wrong(start, "", fmt.Errorf("here or further down is no YAML: %w", err))
	}
	for _, f := range found {
		if line, err := strconv.Atoi(f[1]); err == nil {
			r.wrong(Place{start.File, line}, "", errors.New("is no YAML: "+f[2]))
		}
	}
}

// jsonable makes of what a YAML parser reads what JSON can hold.
func jsonable(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			item, err := jsonable(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[any]any:
		object := make(map[string]any, len(v))
		for key, value := range v {
			name, is := key.(string)
			if !is {
				return nil, fmt.Errorf("the key %v is no string; put it in quotes", key)
			}
			var err error
			if object[name], err = jsonable(value); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}

func (r *reader) document(value any, lines lines) {
	var raw []byte
	value, err := jsonable(value)
	if err == nil {
		raw, err = json.Marshal(value)
	}
	if err != nil {
		r.wrong(lines.at(""), "", err)
		return
	}
	if kind := kindOf(value); kind != "List" {
		r.object(raw, lines, "")
		return
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        any               `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := r.decode(raw, "List", &list, lines, ""); err != nil {
		r.wrong(lines.at(""), "List", err)
		return
	}
	if list.Items == nil || list.APIVersion != "v1" {
		r.wrong(lines.at(""), "List", errors.New("needs apiVersion: v1, and items, which may be []"))
	}
	for i, item := range list.Items {
		r.object(item, lines, fmt.Sprintf("items[%d]", i))
	}
}

func kindOf(value any) any {
	object, _ := value.(map[string]any)
	return object["kind"]
}

// object takes up one Federation or Cell that is written under a path of its
// document.
func (r *reader) object(raw []byte, lines lines, under string) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		r.wrong(lines.at(under), "", errors.New("is no object"))
		return
	}
	at := lines.at(under)
	switch {
	case meta.APIVersion == v1alpha1.GroupVersion.String() && meta.Kind == "Federation":
		r.federations = append(r.federations, at)
		r.fleet.At = at
		r.check(raw, meta.Kind, &r.fleet.Federation, lines, under)
		for _, p := range receivers(r.fleet.Federation.Spec) {
			r.wrong(lines.find(under, p.Path), meta.Kind, p.Err)
		}
	case meta.APIVersion == v1alpha1.GroupVersion.String() && meta.Kind == "Cell":
		c := Cell{At: at}
		r.check(raw, meta.Kind, &c.Cell, lines, under)
		r.fleet.Cells = append(r.fleet.Cells, c)
	default:
		r.wrong(at, "", fmt.Errorf("is %q of %q; only Federation and Cell of %q are rendered: keep anything else elsewhere", meta.Kind, meta.APIVersion, v1alpha1.GroupVersion))
	}
}

// check decodes an object as the API server would, unknown fields refused, and
// validates it against the schema.
func (r *reader) check(raw []byte, kind string, into metav1.Object, lines lines, under string) {
	err := r.decode(raw, kind, into, lines, under)
	problems, trouble := crd.Check(kind, raw)
	if trouble != nil {
		r.wrong(lines.at(under), kind, trouble)
		return
	}
	if err != nil && len(problems) == 0 { // a schema knows the place
		r.wrong(lines.at(under), kind, err)
	}
	for _, p := range problems {
		r.wrong(lines.find(under, p.Path), kind, p.Err)
	}
	if into.GetDeletionTimestamp() != nil {
		r.wrong(lines.find(under, "metadata.deletionTimestamp"), kind, fmt.Errorf("metadata.deletionTimestamp: %s was being deleted when this was written; take the line out to keep it, or the whole of it to let it go", into.GetName()))
	}
}

// decode takes down unknown fields, and gives what kept an object from being
// decoded at all.
func (r *reader) decode(raw []byte, kind string, into any, lines lines, under string) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, err := range strict {
		r.wrong(lines.find(under, quoted(err.Error())), kind, err)
	}
	return err
}

// quoted is the path that a decoder's complaint names in quotes.
func quoted(message string) string {
	_, rest, _ := strings.Cut(message, `"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

func (r *reader) wrong(at Place, kind string, err error) {
	if kind != "" {
		err = fmt.Errorf("%s: %w", kind, err)
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %w", at, err))
}
