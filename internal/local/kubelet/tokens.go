package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// requestTimeout bounds each request to the API server.
const requestTimeout = 10 * time.Second

// tokenCache gets tokens of a pod's service account, bound to the pod, and renews each when a fifth of its life is left.
type tokenCache struct {
	client kubernetes.Interface
	pod    *corev1.Pod
	now    func() time.Time

	mu     sync.Mutex
	tokens map[tokenKey]issuedToken
}

type tokenKey struct {
	audience string
	lifetime time.Duration
}

type issuedToken struct {
	token string
	renew time.Time
}

func newTokenCache(client kubernetes.Interface, pod *corev1.Pod) *tokenCache {
	return &tokenCache{client: client, pod: pod, now: time.Now, tokens: map[tokenKey]issuedToken{}}
}

// Token implements volume.Tokens.
func (t *tokenCache) Token(ctx context.Context, audience string, lifetime time.Duration) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tokenKey{audience, lifetime}
	if held, ok := t.tokens[key]; ok && t.now().Before(held.renew) {
		return held.token, nil
	}
	issued, err := t.request(ctx, audience, lifetime)
	if err != nil {
		return "", err
	}
	t.tokens[key] = issued
	return issued.token, nil
}

func (t *tokenCache) request(ctx context.Context, audience string, lifetime time.Duration) (issuedToken, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seconds := int64(lifetime.Seconds())
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: t.pod.Name, UID: t.pod.UID},
	}}
	if audience != "" {
		r.Spec.Audiences = []string{audience}
	}
	asked := t.now()
	account := t.pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	r, err := t.client.CoreV1().ServiceAccounts(t.pod.Namespace).CreateToken(ctx, account, r, metav1.CreateOptions{})
	if err != nil {
		return issuedToken{}, fmt.Errorf("requesting token of service account %s: %w", account, err)
	}
	life := r.Status.ExpirationTimestamp.Sub(asked)
	return issuedToken{token: r.Status.Token, renew: asked.Add(life * 4 / 5)}, nil
}
