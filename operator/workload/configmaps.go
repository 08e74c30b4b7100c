package workload

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/pharos-fleet/pharos/rules"
)

const (
	// maxFiles is how many bytes a ConfigMap may hold.
	maxFiles = 1 << 20
	// minMounted is how many pieces of a file of more than one a pod mounts at least,
	// whether they are there or not: a fleet that grows must not restart all of
	// its centrals at once. So many pieces are ten thousand cells.
	minMounted = 32
)

// chunk is the files of one ConfigMap.
type chunk struct {
	name  string
	files map[string][]byte
}

// chunks puts each piece of a divided file into a ConfigMap of its own, so that a
// new cell changes one, and all other files into the one called as the part. A
// name of a workload has no dot, so that no two parts come to one name. What
// others name comes last.
func chunks(part string, files map[string][]byte) []chunk {
	whole := chunk{part, map[string][]byte{}}
	var all []chunk
	for _, name := range sorted(files) {
		if stem, number, ok := rules.PieceOf(name); ok {
			all = append(all, chunk{pieceName(part, stem, number), map[string][]byte{name: files[name]}})
		} else {
			whole.files[name] = files[name]
		}
	}
	return append(all, whole)
}

func pieceName(part, stem string, number int) string {
	return fmt.Sprintf("%s.%s-%d", part, stem, number)
}

// CheckFiles refuses files that do not fit into ConfigMaps, and names the
// largest of them. An API server would refuse them, too, and nobody would know
// which.
func CheckFiles(part string, files map[string][]byte) error {
	var errs []error
	for _, c := range chunks(part, files) {
		errs = append(errs, c.check(part))
	}
	return errors.Join(errs...)
}

func (c chunk) check(part string) error {
	total, largest := 0, ""
	for _, name := range sorted(c.files) {
		total += len(name) + len(c.files[name])
		if largest == "" || len(c.files[name]) > len(c.files[largest]) {
			largest = name
		}
	}
	if total > maxFiles {
		return fmt.Errorf("the files of %s have %d bytes for one ConfigMap, %s, more than the %d that it holds; the largest is %s with %d: "+
			"describe less in it, or divide the cells among several hubs", part, total, c.name, maxFiles, largest, len(c.files[largest]))
	}
	return nil
}

// ConfigMaps hold the files of a part. A name of a file must be a valid key.
func (p Place) ConfigMaps(part Part, program string, files map[string][]byte) Objects {
	var objects Objects
	for _, c := range chunks(part.Name, files) {
		objects = append(objects, p.configMap(c, part, program))
	}
	return objects
}

func (p Place) configMap(c chunk, part Part, program string) runtime.ApplyConfiguration {
	data := make(map[string]string, len(c.files))
	for name, content := range c.files {
		data[name] = string(content)
	}
	cm := corev1ac.ConfigMap(c.name, p.Namespace).WithLabels(p.labels(part, program)).WithData(data)
	if p.Owner != nil {
		cm.WithOwnerReferences(p.Owner)
	}
	return cm
}

// filesVolume mounts the ConfigMaps of a part in one folder.
func filesVolume(name, mount, part string, files map[string][]byte) volume {
	pieces := map[string]int{}
	for file := range files {
		if stem, number, ok := rules.PieceOf(file); ok {
			pieces[stem] = max(pieces[stem], number+1)
		}
	}
	for stem, n := range pieces {
		if n > 1 {
			pieces[stem] = max(minMounted, n)
		}
	}
	if len(pieces) == 0 {
		return configVolume(name, mount, part)
	}
	source := corev1ac.ProjectedVolumeSource().WithSources(projected(part, false))
	for _, stem := range sorted(pieces) {
		for number := range pieces[stem] {
			source.WithSources(projected(pieceName(part, stem, number), true))
		}
	}
	return volume{name, mount, true, corev1ac.Volume().WithName(name).WithProjected(source)}
}

func projected(configMap string, optional bool) *corev1ac.VolumeProjectionApplyConfiguration {
	source := corev1ac.ConfigMapProjection().WithName(configMap)
	if optional {
		source.WithOptional(true)
	}
	return corev1ac.VolumeProjection().WithConfigMap(source)
}
