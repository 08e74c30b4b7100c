package volume_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/volume"
)

func file(text string) volume.File { return volume.File{Data: []byte(text), Mode: 0o644} }

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a volume")
	changed, err := volume.Write(dir, volume.Payload{"a": file("1"), "deep/b": file("2"), "deep/c": {Data: []byte("3"), Mode: 0o400}})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "1", read(t, dir, "a"))
	require.Equal(t, "2", read(t, dir, "deep", "b"))
	info, err := os.Stat(filepath.Join(dir, "deep", "c"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o400), info.Mode().Perm())

	changed, err = volume.Write(dir, volume.Payload{"a": file("1"), "deep/b": file("2"), "deep/c": {Data: []byte("3"), Mode: 0o400}})
	require.NoError(t, err)
	require.False(t, changed, "the same again changes nothing")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "mount"), 0o755))
	changed, err = volume.Write(dir, volume.Payload{"deep/b": file("new")})
	require.NoError(t, err)
	require.True(t, changed)
	require.NoFileExists(t, filepath.Join(dir, "a"))
	require.NoFileExists(t, filepath.Join(dir, "deep", "c"))
	require.Equal(t, "new", read(t, dir, "deep", "b"))
	require.DirExists(t, filepath.Join(dir, "mount"), "what is mounted inside stays")

	changed, err = volume.Write(dir, volume.Payload{})
	require.NoError(t, err)
	require.True(t, changed)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the link, its empty set, and the mount")
}

// Secrets and tokens are files that anybody may read, as in Kubernetes; the
// folders around them are what keeps other users of the machine out.
func TestFoldersAreTheirOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	_, err := volume.Write(filepath.Join(dir, "pod", "token"), volume.Payload{"deep/token": file("secret")})
	require.NoError(t, err)
	require.NoError(t, volume.Link(filepath.Join(dir, "pod", "root", "data"), filepath.Join(dir, "claims", "data")))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if info, err := d.Info(); d.IsDir() && path != dir {
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, path)
		}
		return nil
	}))
}

func TestReadersSeeAWholeSet(t *testing.T) {
	dir := t.TempDir()
	_, err := volume.Write(dir, volume.Payload{"a": file("0"), "b": file("0")})
	require.NoError(t, err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			set, err := os.Readlink(filepath.Join(dir, "..data"))
			if err != nil {
				t.Error("there is always a set:", err)
				return
			}
			a, aerr := os.ReadFile(filepath.Join(dir, set, "a"))
			b, berr := os.ReadFile(filepath.Join(dir, set, "b"))
			if aerr == nil && berr == nil && string(a) != string(b) {
				t.Errorf("a set is torn: %s and %s", a, b)
			}
		}
	})
	for i := range 200 {
		text := string(rune('a' + i%26))
		_, err := volume.Write(dir, volume.Payload{"a": file(text), "b": file(text)})
		require.NoError(t, err)
	}
	close(stop)
	wg.Wait()
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	at, one, two := filepath.Join(dir, "root", "data"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, volume.Link(at, one))
	require.NoError(t, volume.Link(at, one))
	require.NoError(t, os.WriteFile(filepath.Join(at, "x"), []byte("kept"), 0o600))
	require.Equal(t, "kept", read(t, one, "x"))
	require.NoError(t, volume.Link(at, two))
	require.NoFileExists(t, filepath.Join(at, "x"))
	require.Equal(t, "kept", read(t, one, "x"))
}

type objects map[string]map[string]string

func (o objects) get(name string) (map[string]string, error) {
	if data, ok := o[name]; ok {
		return data, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
}

func (o objects) ConfigMap(name string) (*corev1.ConfigMap, error) {
	data, err := o.get(name)
	return &corev1.ConfigMap{Data: data, BinaryData: map[string][]byte{"bin": {0}}}, err
}

func (o objects) Secret(name string) (*corev1.Secret, error) {
	data, err := o.get(name)
	s := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s, err
}

// tokens gives a token that tells what was asked for.
type tokens struct{ err error }

func (t tokens) Token(_ context.Context, audience string, lifetime time.Duration) (string, error) {
	return audience + "/" + lifetime.String(), t.err
}

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func render(v corev1.VolumeSource, tok tokens) (volume.Payload, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "a"}}}
	return volume.Render(context.Background(), &corev1.Volume{Name: "v", VolumeSource: v},
		volume.Sources{Pod: pod, Configs: objects{"o": {"k": "v", "l": "w"}}, Tokens: tok})
}

func TestRender(t *testing.T) {
	yes, m400, m600, life := true, int32(0o400), int32(0o600), int64(900)
	for name, c := range map[string]struct {
		source corev1.VolumeSource
		want   volume.Payload
	}{
		"configmap": {
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("o")}},
			volume.Payload{"k": file("v"), "l": file("w"), "bin": file("\x00")},
		},
		"items and modes": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "o", DefaultMode: &m400, Items: []corev1.KeyToPath{{Key: "k", Path: "x/k"}, {Key: "l", Path: "l", Mode: &m600}}}},
			volume.Payload{"x/k": {Data: []byte("v"), Mode: 0o400}, "l": {Data: []byte("w"), Mode: 0o600}},
		},
		"optional object": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none", Optional: &yes}}, volume.Payload{},
		},
		"optional key": {
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("o"), Optional: &yes, Items: []corev1.KeyToPath{{Key: "none", Path: "x"}}}}, volume.Payload{},
		},
		"downward": {
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
			volume.Payload{"labels": file(`app="a"`)},
		},
		"projected": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &m600, Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "us", ExpirationSeconds: &life}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "own"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: ref("o"), Items: []corev1.KeyToPath{{Key: "k", Path: "k"}}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("none"), Optional: &yes}},
			}}},
			volume.Payload{"token": {Data: []byte("us/15m0s"), Mode: 0o600}, "own": {Data: []byte("/1h0m0s"), Mode: 0o600}, "k": {Data: []byte("v"), Mode: 0o600}},
		},
	} {
		got, err := render(c.source, tokens{})
		require.NoError(t, err, name)
		require.Empty(t, cmp.Diff(c.want, got), name)
	}
}

func TestRenderSaysWhatIsMissing(t *testing.T) {
	item := func(key, path string) []corev1.KeyToPath { return []corev1.KeyToPath{{Key: key, Path: path}} }
	for want, source := range map[string]corev1.VolumeSource{
		`rendering volume v: objects "none" not found`:     {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("none")}},
		`rendering volume v: secret "o" has no key "x"`:    {Secret: &corev1.SecretVolumeSource{SecretName: "o", Items: item("x", "x")}},
		`rendering volume v: file "../k" lies outside`:     {Secret: &corev1.SecretVolumeSource{SecretName: "o", Items: item("k", "../k")}},
		`rendering volume v: file f: no such downward API`: {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "f", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "x"}}}}},
		`rendering volume v: this kind of volume`:          {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		`rendering volume v: this kind of projection`:      {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}}}},
	} {
		_, err := render(source, tokens{})
		require.ErrorContains(t, err, want)
	}
	refused := errors.New("refused")
	_, err := render(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
	}}}, tokens{refused})
	require.ErrorIs(t, err, refused)
}
