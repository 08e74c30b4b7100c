package tree

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/lru"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// encode writes an object of a cell, or of no cell, as YAML. What it is in JSON
// decides, as everywhere in Kubernetes.
func (t templates) encode(o any, cell string) ([]byte, error) {
	if cm, ok := o.(*corev1ac.ConfigMapApplyConfiguration); ok && len(cm.Data) > 0 {
		return t.encodeConfigMap(cm, cell)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return t.text(raw, cell)
}

// encodeJSON writes as YAML what is JSON.
func encodeJSON(raw []byte) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return encodeYAML(fields)
}

func encodeYAML(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(v), encoder.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

const dataKey = "data:\n"

// encodeConfigMap gives the bytes that encode would give, with each of the files
// written by itself: they are most of what there is.
func (t templates) encodeConfigMap(cm *corev1ac.ConfigMapApplyConfiguration, cell string) ([]byte, error) {
	rest := *cm
	rest.Data = nil
	raw, err := t.encode(&rest, cell)
	if err != nil {
		return nil, err
	}
	// Keys are in their order: apiVersion, data, kind.
	version, kind, found := bytes.Cut(raw, []byte("\nkind: "))
	if !found {
		return nil, errors.New("an object has no kind")
	}
	var out bytes.Buffer
	out.Write(version)
	out.WriteString("\n" + dataKey)
	for _, name := range slices.Sorted(maps.Keys(cm.Data)) {
		if err := encodeFile(&out, name, cm.Data[name]); err != nil {
			return nil, err
		}
	}
	out.WriteString("kind: ")
	out.Write(kind)
	return out.Bytes(), nil
}

// plainName is a file's name of which no reader of YAML makes anything but text.
var plainName = regexp.MustCompile(`^[a-z][-a-z0-9]{0,60}\.[-.a-z0-9]{0,60}[a-z]$`)

// encodeFile writes a file as an entry of a ConfigMap's data. A plain text is a block
// of its lines, which needs no encoder.
func encodeFile(out *bytes.Buffer, name, content string) error {
	if !plainName.MatchString(name) || !plainText(content) {
		raw, err := encodeYAML(map[string]any{"data": map[string]string{name: content}})
		out.Write(bytes.TrimPrefix(raw, []byte(dataKey)))
		return err
	}
	out.Grow(len(content) + len(content)/8)
	out.WriteString("  " + name + ": |\n")
	for line := range strings.Lines(content) {
		if line != "\n" {
			out.WriteString("    ")
		}
		out.WriteString(line)
	}
	return nil
}

// plainText tells whether a text can be written line by line as it is: it has
// nothing but printable ASCII in lines that do not end in a space, begins with a
// line that is not indented, and ends with one end of a line.
func plainText(s string) bool {
	if s == "" || s[0] == ' ' || s[0] == '\n' || !strings.HasSuffix(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.Contains(s, " \n") {
		return false
	}
	for i := range len(s) {
		if s[i] != '\n' && (s[i] < ' ' || s[i] > '~') {
			return false
		}
	}
	return true
}

// templates are the objects of cells, which differ in nothing but the cell's name: it
// remembers them by their JSON without that name, as the text before, between and after
// it.
type templates struct{ known *lru.Cache }

func newTemplates() templates {
	const most = 1000 // more than a fleet has of different objects in its cells
	return templates{lru.New(most)}
}

// anyCell stands for the name of the cell where it is not looked at: a name that no
// cell has, and that is plain text in YAML.
const anyCell = "the-cell_"

// text is an object as YAML, from its JSON.
func (t templates) text(raw []byte, cell string) ([]byte, error) {
	if cell == "" {
		return encodeJSON(raw)
	}
	key := string(bytes.ReplaceAll(raw, labelled(cell), labelled(anyCell)))
	parts, known := t.known.Get(key)
	if !known {
		text, err := encodeJSON([]byte(key))
		if err != nil {
			return nil, err
		}
		parts = bytes.Split(text, []byte(v1alpha1.LabelCell+": "+anyCell+"\n"))
		t.known.Add(key, parts)
	}
	name, err := encodeYAML(map[string]string{v1alpha1.LabelCell: cell})
	return bytes.Join(parts.([][]byte), name), err
}

// labelled is how an object says in JSON which cell it is of.
func labelled(cell string) []byte {
	return []byte(`"` + v1alpha1.LabelCell + `":"` + cell + `"`)
}
