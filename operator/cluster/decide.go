package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

const (
	// maxVersion is what the API takes. One that is longer would cost us the
	// whole status.
	maxVersion = 80
	// maxMessage is more than anyone reads.
	maxMessage = 1024
)

// observation is what one look at a Cluster saw. The look ends with the first
// thing that goes wrong: of unread, invalid and unanswered at most one is set.
type observation struct {
	// secret is the one that the Cluster names.
	secret client.ObjectKey
	// unread is why the Secret could not be read.
	unread error
	// invalid is why no connection can be made of what it holds; empty says that
	// it holds nothing.
	invalid error
	empty   bool
	// server is the address in the kubeconfig.
	server string
	// unanswered is why there is no answer to /readyz; else code and body are it.
	unanswered error
	code       int
	body       []byte
	// version is what the API server says it is, unless noVersion says why not.
	version   string
	noVersion error
}

// verdict is what to say about a Cluster, and when to look again.
type verdict struct {
	// reason is that of the condition Ready.
	reason string
	status v1alpha1.ClusterStatus
	next   time.Duration
}

// decide turns what was seen into a status. Only the API server's own word makes
// Ready True or False; whatever keeps it from us leaves it Unknown. A Cluster
// that is paused is looked at like any other, and says so.
func decide(c *v1alpha1.Cluster, seen observation, now time.Time) verdict {
	ready := judge(seen)
	status := *c.Status.DeepCopy()
	status.ObservedGeneration = c.Generation
	if seen.version != "" {
		status.Version = seen.version
	}
	for _, condition := range []metav1.Condition{ready, paused(c.Annotations)} {
		condition.ObservedGeneration = c.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		condition.Message = bounded(condition.Message)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	next := paceWrong
	if ready.Status == metav1.ConditionTrue {
		next = paceReady
	}
	return verdict{reason: ready.Reason, status: status, next: next}
}

func judge(seen observation) metav1.Condition {
	switch {
	case apierrors.IsNotFound(seen.unread):
		return unknown(v1alpha1.ReasonKubeconfigMissing,
			"there is no Secret %s, which spec.observerKubeconfigSecret names: create it with the observer's kubeconfig under the key %s",
			seen.secret, kube.SecretKeyKubeconfig)
	case apierrors.IsForbidden(seen.unread):
		return unknown(v1alpha1.ReasonKubeconfigUnreadable,
			"the node operator may not read Secret %s: apply deploy/cell/clusters in namespace %s", seen.secret, seen.secret.Namespace)
	case seen.unread != nil:
		return unknown(v1alpha1.ReasonKubeconfigUnreadable,
			"reading Secret %s from the cell's own API server: %s", seen.secret, cause(seen.unread))
	case seen.empty:
		return unknown(v1alpha1.ReasonKubeconfigMissing,
			"Secret %s has nothing under the key %s: store the observer's kubeconfig there", seen.secret, kube.SecretKeyKubeconfig)
	case seen.invalid != nil:
		return unknown(v1alpha1.ReasonKubeconfigInvalid,
			"Secret %s, key %s: %v: store a kubeconfig that holds address, authority and credential itself",
			seen.secret, kube.SecretKeyKubeconfig, seen.invalid)
	case untrusted(seen.unanswered):
		return unknown(v1alpha1.ReasonUnreachable,
			"asking %s/readyz: %s: compare its certificate with the authority and the address in Secret %s",
			seen.server, cause(seen.unanswered), seen.secret)
	case seen.unanswered != nil:
		return unknown(v1alpha1.ReasonUnreachable,
			"asking %s/readyz: %s: see whether the API server runs in its cell, and whether the address in Secret %s leads to it",
			seen.server, cause(seen.unanswered), seen.secret)
	}
	return answered(seen)
}

// answered judges an answer. Only two are known to be the API server's own word
// about itself; others may be those of something in front of it.
func answered(seen observation) metav1.Condition {
	switch {
	case seen.code == http.StatusOK && string(seen.body) == "ok":
		c := metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAPIServerReady,
			Message: seen.server + " says that it is ready",
		}
		if seen.noVersion != nil {
			c.Message += "; asking for its version: " + cause(seen.noVersion)
		}
		return c
	case seen.code == http.StatusInternalServerError && len(failing(seen.body)) > 0:
		return metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAPIServerNotReady,
			Message: fmt.Sprintf("%s says that it is not ready, because of %s: its log says more; look at its etcd first",
				seen.server, strings.Join(failing(seen.body), ", ")),
		}
	case seen.code == http.StatusUnauthorized:
		return unknown(v1alpha1.ReasonUnauthorized,
			"%s does not accept the credential in Secret %s: store a new one", seen.server, seen.secret)
	case seen.code == http.StatusForbidden:
		return unknown(v1alpha1.ReasonUnauthorized,
			"%s does not let the credential in Secret %s get /readyz: grant it get on /readyz and /version, as the ClusterRole system:public-info-viewer does",
			seen.server, seen.secret)
	}
	return unknown(v1alpha1.ReasonUnreachable,
		"%s/readyz answers HTTP %d, which is not how an API server says how it is: see what is in front of it, and whether the address in Secret %s leads to it",
		seen.server, seen.code, seen.secret)
}

func unknown(reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

// failing are the checks that an API server says it fails, in its own order. An
// answer of another form has none.
func failing(body []byte) []string {
	var checks []string
	for line := range strings.Lines(string(body)) {
		check, ok := strings.CutPrefix(line, "[-]")
		if words := strings.Fields(check); ok && len(words) > 0 {
			checks = append(checks, words[0])
		}
	}
	return checks
}

func paused(annotations map[string]string) metav1.Condition {
	why, is := annotations[v1alpha1.AnnotationPaused]
	if !is {
		return metav1.Condition{
			Type: v1alpha1.ConditionPaused, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotAnnotated,
			Message: "repairs are not held by an annotation of this Cluster",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAnnotated,
		Message: fmt.Sprintf("annotation %s is %q: no repair is started in this cluster; it goes on being looked at", v1alpha1.AnnotationPaused, why),
	}
}

// changes are the conditions whose status or reason is another than before.
func changes(before, after []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(after), func(now metav1.Condition) bool {
		old := meta.FindStatusCondition(before, now.Type)
		if old == nil {
			// That nobody has paused a new Cluster is no news.
			return now.Type == v1alpha1.ConditionPaused && now.Status == metav1.ConditionFalse
		}
		return old.Status == now.Status && old.Reason == now.Reason
	})
}

// bounded keeps a message readable, whatever was told to us; and the same when
// it is read back, which bytes that are no text would not be.
func bounded(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return message
}
