package tree

import (
	"fmt"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// writtenCell is a Cell without what only an API server or an operator says of it.
type writtenCell struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata          `json:"metadata"`
	Spec            v1alpha1.CellSpec `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// descriptions are the Cells as objects of the hub. The remediator looks up there
// how it reaches each cell; without them it repairs nothing. The name of a part has
// no dot, so that no Cell's file is one.
func (t *Tree) descriptions() ([]File, error) {
	var files []File
	for _, c := range t.cells {
		raw, err := t.objects.encode(writtenCell{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cell"},
			Metadata: metadata{c.Name, c.Labels, c.Annotations},
			Spec:     c.Spec,
		}, "")
		if err != nil {
			return nil, fmt.Errorf("%s: Cell %q: writing it down: %w", t.fleet.at(c.Name), c.Name, err)
		}
		files = append(files, File{path.Join(hubFolder, "manifests", "cell."+c.Name+".yaml"), append([]byte(header), raw...)})
	}
	return files, nil
}
