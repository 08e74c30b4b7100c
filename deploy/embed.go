// Package deploy holds the manifests of an installation: the custom resource
// definitions, the hub, a cell, a cell's namespaces of clusters, and a business
// cluster. They can be applied with kubectl as they are; this package gives the
// same objects to programs. It applies nothing itself.
package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Namespace is where Pharos runs, in the hub and in every cell.
const Namespace = "pharos-system"

// Service accounts in a cell whose tokens the hub holds.
const (
	// OperatorAccess is the account of spec.kubeconfigSecret of a Cell.
	OperatorAccess = "operator-access"
	// RemediatorAccess is the account of spec.remediatorKubeconfigSecret of a Cell.
	RemediatorAccess = "remediator-access"
)

// Service accounts in a business cluster whose tokens its cell holds.
const (
	// NodeCheckAccess is the account of spec.nodeCheckKubeconfigSecret of its Cluster.
	NodeCheckAccess = "node-check-access"
	// DrainAccess is the account of spec.drainKubeconfigSecret of its Cluster.
	DrainAccess = "drain-access"
	// Observer is the account of spec.observerKubeconfigSecret of its Cluster.
	Observer = "pharos-observer"
)

//go:embed crds/*.yaml hub/*.yaml cell/*.yaml cell/clusters/*.yaml business/*.yaml
var manifests embed.FS

// CRDs returns the custom resource definitions, the same for hub and cells.
func CRDs() ([]*unstructured.Unstructured, error) { return decode("crds") }

// Hub returns the objects of the hub in the order in which to apply them, with
// the operator from the Pharos image given; what it runs, the Federation says.
// It fails when image is empty.
func Hub(image string) ([]*unstructured.Unstructured, error) {
	objects, err := decode("hub")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		if err := setImage(o, image); err != nil {
			return nil, fmt.Errorf("setting the image of Deployment %s: %w", o.GetName(), err)
		}
	}
	return objects, nil
}

// Cell returns the objects of a cell in the order in which to apply them: its
// namespace, accounts and rights. What runs there is the operator's work.
func Cell() ([]*unstructured.Unstructured, error) { return decode("cell") }

// ClusterNamespace returns the rights that the edge agent, the remediator and
// the node operator need in one namespace of a cell that holds Clusters and
// Machines. The namespace itself must exist.
func ClusterNamespace(namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := decode("cell/clusters")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.SetNamespace(namespace)
	}
	return objects, nil
}

// Business returns the objects of a business cluster in the order in which to
// apply them: what the edge agent and the remediator read with, and what the
// remediator needs to check a node after its repair.
func Business() ([]*unstructured.Unstructured, error) { return decode("business") }

// decode reads the folder's files in order of name, which is the order of
// dependence.
func decode(dir string) ([]*unstructured.Unstructured, error) {
	entries, err := fs.ReadDir(manifests, dir)
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		name := path.Join(dir, e.Name())
		more, err := decodeFile(name)
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", name, err)
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

func decodeFile(name string) ([]*unstructured.Unstructured, error) {
	data, err := manifests.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// setImage gives every container of a Deployment the image.
func setImage(deployment *unstructured.Unstructured, image string) error {
	if image == "" {
		return errors.New("no image given")
	}
	template := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(deployment.Object, template...)
	if err != nil {
		return err
	}
	if !found {
		return errors.New("it has no containers")
	}
	for _, c := range containers {
		c.(map[string]any)["image"] = image
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, template...)
}
