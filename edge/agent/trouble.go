package agent

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// trouble is why a business cluster is not watched, as the metric's label names
// it. None is the empty string.
type trouble string

const (
	kubeconfigMissing trouble = "kubeconfig_missing" // no such Secret, or nothing in it
	kubeconfigUnread  trouble = "kubeconfig_unread"  // the cell did not let us read it, or did not answer
	kubeconfigBroken  trouble = "kubeconfig_broken"  // no connection can be made of it
	kubeconfigRefused trouble = "kubeconfig_refused" // the business cluster's API server does not accept it
	failing           trouble = "failing"            // it does not answer, or not as it should
)

// troubles are all there are, so that each has a series from the beginning.
func troubles() []trouble {
	return []trouble{kubeconfigMissing, kubeconfigUnread, kubeconfigBroken, kubeconfigRefused, failing}
}

// troubleOfReading says what keeps us from a kubeconfig.
func troubleOfReading(err error) trouble {
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		return kubeconfigMissing
	}
	return kubeconfigUnread
}

// troubleOfProbe says what keeps us from the nodes. An API server that knows us
// and does not let us read them needs the same hand as one that does not know us.
func troubleOfProbe(err error) trouble {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return kubeconfigRefused
	}
	return failing
}

// fail counts a failure and remembers what it was until a probe is good.
func (m *member) fail(t trouble) {
	m.errors.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = t
}

// troubled is the present trouble.
func (m *member) troubled() trouble {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}
