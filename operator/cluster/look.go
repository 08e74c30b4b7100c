package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// maxBody bounds what is read of an answer. The longest that a healthy API
// server gives is a few kilobytes.
const maxBody = 64 << 10

// server is the way to one API server.
type server struct {
	base *url.URL
	http *http.Client
}

// look finds out how the Cluster's API server is. Whatever goes wrong is part
// of what it saw.
func (r *Reconciler) look(ctx context.Context, c *v1alpha1.Cluster) observation {
	key := client.ObjectKeyFromObject(c)
	seen := observation{secret: client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.ObserverKubeconfigSecret}}
	secret, err := r.secret(ctx, seen.secret)
	if err != nil {
		seen.unread = err
		// Whoever took it away meant it. A Secret that is only not given out now
		// may be the same later.
		if apierrors.IsNotFound(err) {
			r.servers.Drop(key)
		}
		return seen
	}
	to, err := r.servers.To(key, secret)
	if err != nil {
		seen.empty, seen.invalid = len(secret.Data[kube.SecretKeyKubeconfig]) == 0, err
		r.servers.Drop(key)
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	seen.server = to.base.String()
	seen.code, seen.body, seen.unanswered = to.get(ctx, "readyz")
	if seen.unanswered != nil {
		// A connection that has proven dead would be used again until it is known
		// to be, long after the API server is back.
		r.servers.Drop(key)
		return seen
	}
	seen.version, seen.noVersion = to.version(ctx)
	return seen
}

func (r *Reconciler) secret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secret := &corev1.Secret{}
	return secret, r.live.Get(ctx, key, secret)
}

func (s *server) get(ctx context.Context, path string) (code int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(path).String(), nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response.StatusCode, bytes.TrimSpace(body), errors.Join(err, response.Body.Close())
}

func (s *server) version(ctx context.Context) (string, error) {
	code, body, err := s.get(ctx, "version")
	if err != nil {
		return "", err
	}
	if code != http.StatusOK {
		return "", fmt.Errorf("HTTP %d", code)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return "", errors.New("the answer is not a version")
	}
	if v := info.GitVersion; v == "" || len(v) > maxVersion {
		return "", errors.New("the answer names no version")
	}
	return info.GitVersion, nil
}
