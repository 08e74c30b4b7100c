package tree

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/pharos-fleet/pharos/rules"
)

// encode writes an object as YAML. What it is in JSON decides, as everywhere in
// Kubernetes.
func encode(o any) ([]byte, error) {
	if cm, ok := o.(*corev1ac.ConfigMapApplyConfiguration); ok && len(cm.Data) > 0 {
		return encodeConfigMap(cm)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
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
// written by itself: rules are most of what there is, and alike in every cell.
func encodeConfigMap(cm *corev1ac.ConfigMapApplyConfiguration) ([]byte, error) {
	rest := *cm
	rest.Data = nil
	raw, err := encode(&rest)
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
		file, err := files.text(name, cm.Data[name])
		if err != nil {
			return nil, err
		}
		out.Write(file)
	}
	out.WriteString("kind: ")
	out.Write(kind)
	return out.Bytes(), nil
}

// files are rule files as they are written in a ConfigMap.
var files texts

// texts remembers files by their names and content. It is bounded by forgetting
// all.
type texts struct {
	mu    sync.Mutex
	known map[file][]byte
}

type file struct{ name, content string }

// maxTexts is more than the rule files of all tiers are.
const maxTexts = 100

// text is a file as an entry of a ConfigMap's data. Nothing may change it.
func (t *texts) text(name, content string) ([]byte, error) {
	f := file{name, content}
	t.mu.Lock()
	text, known := t.known[f]
	t.mu.Unlock()
	if known {
		return text, nil
	}
	raw, err := encodeYAML(map[string]any{"data": map[string]string{name: content}})
	if err != nil {
		return nil, err
	}
	text = bytes.TrimPrefix(raw, []byte(dataKey))
	if !alike(name) {
		return text, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTexts {
		t.known = map[file][]byte{}
	}
	t.known[f] = text
	return text, nil
}

// alike tells of the files that many servers have in common.
func alike(name string) bool {
	return strings.HasSuffix(name, rules.FileSuffix) && !strings.HasPrefix(name, "topology")
}
