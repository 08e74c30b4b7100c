package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// maxFile bounds one file of descriptions.
const maxFile = 64 << 20

// Place is where something is written.
type Place struct {
	File string
	Line int
}

// String gives file:line, which editors open.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Cell is a Cell and where it is written.
type Cell struct {
	v1alpha1.Cell
	At Place
}

// Fleet is what is to be rendered.
type Fleet struct {
	Federation v1alpha1.Federation
	At         Place
	// Cells in the order of their files.
	Cells []Cell
}

// at is where a cell is written.
func (f Fleet) at(name string) Place {
	i := slices.IndexFunc(f.Cells, func(c Cell) bool { return c.Name == name })
	if i < 0 {
		return f.At
	}
	return f.Cells[i].At
}

// Read reads one Federation from a file, and Cells from a file or from all YAML
// and JSON files under a folder. With no cells given, they are read from the
// file of the Federation. Each file may hold several documents, and lists as
// kubectl prints them. Everything that an API server would refuse is refused,
// all of it at once, each with file and line.
func Read(federation, cells string) (Fleet, error) {
	r, err := newReader()
	if err != nil {
		return Fleet{}, err
	}
	if err := r.file(federation); err != nil {
		return Fleet{}, err
	}
	found := len(r.federations) > 0
	if cells != "" {
		if err := r.cells(cells, federation); err != nil {
			return Fleet{}, err
		}
	}
	switch err := errors.Join(r.errs...); {
	case err != nil:
		return Fleet{}, err
	case !found:
		return Fleet{}, fmt.Errorf("%s: there is no Federation in it", federation)
	case len(r.federations) > 1:
		return Fleet{}, fmt.Errorf("%s and %s: there are several Federations; a hub has one", r.federations[0], r.federations[1])
	}
	return r.fleet, nil
}

// cells reads the Cells at a path. Those beside the Federation count only where
// its file is among them.
func (r *reader) cells(at, federation string) error {
	files, err := filesOf(at)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(files, func(f string) bool { return same(f, federation) }) {
		r.fleet.Cells = nil
	}
	for _, file := range files {
		if same(file, federation) {
			continue
		}
		if err := r.file(file); err != nil {
			return err
		}
	}
	return nil
}

// filesOf lists the files with descriptions, by path.
func filesOf(at string) ([]string, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, fmt.Errorf("looking for cells: %w", err)
	}
	if !info.IsDir() {
		return []string{at}, nil
	}
	var files []string
	err = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for cells in %s: %w", at, err)
	}
	return files, nil
}

// same tells whether two paths lead to one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// reader collects what it finds, and everything that is wrong with it.
type reader struct {
	schemas     schemas
	federations []Place
	fleet       Fleet
	errs        []error
}

func newReader() (*reader, error) {
	s, err := newSchemas()
	return &reader{schemas: s}, err
}

func (r *reader) file(path string) error {
	f, err := os.Open(path)
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
	for _, d := range documents(path, raw) {
		r.document(d)
	}
	return nil
}

// document is one YAML document.
type document struct {
	at  Place
	raw []byte
}

// documents divides a file at its lines of three dashes.
func documents(path string, raw []byte) []document {
	var all []document
	now := document{at: Place{path, 1}}
	line := 0
	for text := range bytes.Lines(raw) {
		line++
		if bytes.HasPrefix(text, []byte("---")) && len(bytes.TrimSpace(text[3:])) == 0 {
			all = append(all, now)
			now = document{at: Place{path, line + 1}}
			continue
		}
		now.raw = append(now.raw, text...)
	}
	return append(all, now)
}

func (r *reader) document(d document) {
	raw, err := yaml.YAMLToJSONStrict(d.raw)
	if err != nil {
		r.wrong(d.at, "", err)
		return
	}
	if string(raw) == "null" {
		return // nothing but comments
	}
	lines := newLines(d)
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		r.wrong(lines.at(""), "", errors.New("is no object"))
		return
	}
	if list.Kind != "List" {
		r.object(raw, lines, "")
		return
	}
	for i, item := range list.Items {
		r.object(item, lines, fmt.Sprintf("items[%d]", i))
	}
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
	case meta.APIVersion == v1alpha1.GroupVersion.String() && meta.Kind == "Cell":
		c := Cell{At: at}
		r.check(raw, meta.Kind, &c.Cell, lines, under)
		r.fleet.Cells = append(r.fleet.Cells, c)
	default:
		r.wrong(at, "", fmt.Errorf("is %q of %q; only Federation and Cell of %q are rendered", meta.Kind, meta.APIVersion, v1alpha1.GroupVersion))
	}
}

// check decodes an object as the API server would, unknown fields refused, and
// validates it against the schema.
func (r *reader) check(raw []byte, kind string, into any, lines lines, under string) {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		r.wrong(lines.at(under), kind, err)
		return
	}
	for _, err := range strict {
		r.wrong(lines.find(under, quoted(err.Error())), kind, err)
	}
	for _, p := range r.schemas.problems(kind, raw) {
		r.wrong(lines.find(under, p.path), kind, p.err)
	}
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
