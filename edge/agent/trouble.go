package agent

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

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
	unidentified      trouble = "unidentified"       // who answers, if anybody, is not known
	silent            trouble = "silent"             // it does not answer, or only that it cannot
	failing           trouble = "failing"            // it answers, and not as it should
)

// troubles are all there are, so that each has a series from the beginning.
func troubles() []trouble {
	return []trouble{kubeconfigMissing, kubeconfigUnread, kubeconfigBroken, kubeconfigRefused, unidentified, silent, failing}
}

// troubleOfReading says what keeps us from a kubeconfig.
func troubleOfReading(err error) trouble {
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		return kubeconfigMissing
	}
	return kubeconfigUnread
}

// answeredError is trouble with an API server that has answered a read just now.
type answeredError struct{ error }

func (e answeredError) Unwrap() error { return e.error }

// troubleOfProbe says what keeps us from the nodes. An API server that knows us
// and does not let us read them needs the same hand as one that does not know us.
func troubleOfProbe(err error) trouble {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return kubeconfigRefused
	}
	if _, answered := errors.AsType[answeredError](err); answered {
		return failing
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if status.ErrStatus.Code >= http.StatusInternalServerError {
			return silent
		}
		return failing
	}
	if isSilence(err) {
		return silent
	}
	return unidentified
}

// isSilence says whether a request was surely made to the right place and nobody
// answered it. That a name has no address, that a proxy on the way is away or that a
// certificate is another's says nothing of the API server: it may be well.
func isSilence(err error) bool {
	if _, unnamed := errors.AsType[*net.DNSError](err); unnamed {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return false
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return true
	}
	return slices.ContainsFunc([]error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, io.EOF, io.ErrUnexpectedEOF,
	}, func(e error) bool { return errors.Is(err, e) })
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

// answers says whether the cluster's API server answers anything at all, and whether
// that is known. Who refuses us answers.
func (m *member) answers(now time.Time) (answers, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.known && now.Sub(m.lastGood) <= m.pace.up, m.trouble == kubeconfigRefused, m.trouble == failing:
		return true, true
	}
	return false, m.trouble == silent
}
