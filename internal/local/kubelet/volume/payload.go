// Package volume makes the files of a pod's volumes: what they contain, as pure functions of API objects, and how they
// are put on disk so that a reader sees either the old set or the new one.
package volume

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
)

// defaultMode is the mode of files for which the pod asks none.
const defaultMode = int32(0o644)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// Payload is the content of a volume: files by their path within it.
type Payload map[string]File

// Tokens gives tokens of the pod's service account. The audience is empty for the API server's own.
type Tokens interface {
	Token(ctx context.Context, audience string, lifetime time.Duration) (string, error)
}

// Sources are where a volume's content comes from.
type Sources struct {
	// Pod gives names, labels and annotations, and the address in its status.
	Pod *corev1.Pod
	// Configs gives ConfigMaps and Secrets of the pod's namespace.
	Configs podspec.Configs
	// Tokens gives tokens of the pod's service account.
	Tokens Tokens
}

// Follows says whether a volume's files follow objects of the API.
func Follows(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// Render returns the content of a volume that follows the API. It returns an error that names what is missing.
func Render(ctx context.Context, v *corev1.Volume, s Sources) (Payload, error) {
	p, err := render(ctx, v, s)
	if err != nil {
		return nil, fmt.Errorf("rendering volume %s: %w", v.Name, err)
	}
	return p, nil
}

func render(ctx context.Context, v *corev1.Volume, s Sources) (Payload, error) {
	p := Payload{}
	switch {
	case v.ConfigMap != nil:
		return p, p.configMap(v.ConfigMap.Name, v.ConfigMap.Items, mode(v.ConfigMap.DefaultMode), isTrue(v.ConfigMap.Optional), s)
	case v.Secret != nil:
		return p, p.secret(v.Secret.SecretName, v.Secret.Items, mode(v.Secret.DefaultMode), isTrue(v.Secret.Optional), s)
	case v.DownwardAPI != nil:
		return p, p.downward(v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode), s.Pod)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if err := p.projection(ctx, source, mode(v.Projected.DefaultMode), s); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	return nil, fmt.Errorf("this kind of volume has no files of its own")
}

func (p Payload) projection(ctx context.Context, source corev1.VolumeProjection, m int32, s Sources) error {
	switch {
	case source.ConfigMap != nil:
		return p.configMap(source.ConfigMap.Name, source.ConfigMap.Items, m, isTrue(source.ConfigMap.Optional), s)
	case source.Secret != nil:
		return p.secret(source.Secret.Name, source.Secret.Items, m, isTrue(source.Secret.Optional), s)
	case source.DownwardAPI != nil:
		return p.downward(source.DownwardAPI.Items, m, s.Pod)
	case source.ServiceAccountToken != nil:
		return p.token(ctx, source.ServiceAccountToken, m, s.Tokens)
	}
	return fmt.Errorf("this kind of projection is not supported")
}

func (p Payload) token(ctx context.Context, t *corev1.ServiceAccountTokenProjection, m int32, tokens Tokens) error {
	token, err := tokens.Token(ctx, t.Audience, TokenLifetime(t))
	if err != nil {
		return err
	}
	return p.add(t.Path, []byte(token), m)
}

// TokenLifetime returns how long a projected token is wanted to be valid; an hour when the pod does not say.
func TokenLifetime(t *corev1.ServiceAccountTokenProjection) time.Duration {
	if t.ExpirationSeconds == nil {
		return time.Hour
	}
	return time.Duration(*t.ExpirationSeconds) * time.Second
}

func (p Payload) configMap(name string, items []corev1.KeyToPath, m int32, optional bool, s Sources) error {
	cm, err := s.Configs.ConfigMap(name)
	if err != nil {
		return unlessOptional(err, optional)
	}
	data := map[string][]byte{}
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, cm.BinaryData)
	return p.keys(fmt.Sprintf("configmap %q", name), data, items, m, optional)
}

func (p Payload) secret(name string, items []corev1.KeyToPath, m int32, optional bool, s Sources) error {
	secret, err := s.Configs.Secret(name)
	if err != nil {
		return unlessOptional(err, optional)
	}
	return p.keys(fmt.Sprintf("secret %q", name), secret.Data, items, m, optional)
}

// keys adds all keys of an object, or the chosen items.
func (p Payload) keys(object string, data map[string][]byte, items []corev1.KeyToPath, m int32, optional bool) error {
	if len(items) == 0 {
		for k, v := range data {
			if err := p.add(k, v, m); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		v, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf("%s has no key %q", object, item.Key)
		}
		if err := p.add(item.Path, v, itemMode(item.Mode, m)); err != nil {
			return err
		}
	}
	return nil
}

func (p Payload) downward(items []corev1.DownwardAPIVolumeFile, m int32, pod *corev1.Pod) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return fmt.Errorf("file %s: only fieldRef is supported", item.Path)
		}
		value, err := podspec.Field(pod, item.FieldRef.FieldPath)
		if err != nil {
			return fmt.Errorf("file %s: %w", item.Path, err)
		}
		if err := p.add(item.Path, []byte(value), itemMode(item.Mode, m)); err != nil {
			return err
		}
	}
	return nil
}

// add refuses paths that would leave the volume. The API server does, too; this is the last wall before the disk.
func (p Payload) add(file string, data []byte, m int32) error {
	clean := path.Clean(file)
	if !filepath.IsLocal(clean) || clean == "." {
		return fmt.Errorf("file %q lies outside of its volume", file)
	}
	p[clean] = File{Data: data, Mode: fs.FileMode(m)}
	return nil
}

func unlessOptional(err error, optional bool) error {
	if optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func mode(m *int32) int32 { return itemMode(m, defaultMode) }

func itemMode(m *int32, otherwise int32) int32 {
	if m == nil {
		return otherwise
	}
	return *m
}

func isTrue(b *bool) bool { return b != nil && *b }
