package federation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// needed is a Secret that a Federation names, and what must be in it.
type needed struct {
	field, secret string
	keys          []string
	// without is what goes on, or does not, while it is not there.
	without string
}

// secrets are those in the hub, in the order of the fields.
func secrets(f *v1alpha1.Federation) []needed {
	var all []needed
	if c := f.Spec.Link.Credentials; c != nil && workload.LinkSecrets(f, v1alpha1.LinkFederate) != nil {
		n := needed{field: "spec.link.credentials", secret: c.SecretName, without: "cascades wait for it or read no cell"}
		for _, use := range c.Use {
			n.keys = append(n.keys, workload.LinkKeys(use)...)
		}
		all = append(all, n)
	}
	token := []string{"token"}
	for _, s := range f.Spec.LongTerm {
		all = append(all, needed{fmt.Sprintf("spec.longTerm[%s]", s.Name), s.BearerTokenSecret, token, "nothing is written to the store"})
	}
	for _, a := range f.Spec.Alerting.Alertmanagers {
		all = append(all, needed{fmt.Sprintf("spec.alerting.alertmanagers[%s]", a.Name), a.BearerTokenSecret, token, "it is sent no alert"})
	}
	if h := f.Spec.Alerting.Heartbeat; h != nil {
		all = append(all, needed{"spec.alerting.heartbeat", h.SecretName, []string{"url"}, "there is no heartbeat"})
	}
	for _, robot := range f.Spec.Alerting.DingTalk {
		all = append(all, needed{fmt.Sprintf("spec.alerting.dingTalk[%s]", robot.Name), robot.SecretName, []string{"accessToken", "secret"}, "the robot is told nothing"})
	}
	return slices.DeleteFunc(all, func(n needed) bool { return n.secret == "" })
}

// missing says of the Secrets that a Federation names which are not there, or lack
// what is looked for. Parts start without most of them, so nothing else would show it.
func (r *Reconciler) missing(ctx context.Context, f *v1alpha1.Federation) []string {
	var out []string
	for _, n := range secrets(f) {
		var s corev1.Secret
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: n.secret}, &s)
		switch lacks := lacking(s, n.keys); {
		case apierrors.IsNotFound(err):
			out = append(out, fmt.Sprintf("%s: there is no Secret %s in namespace %s, so %s; it needs %s",
				n.field, n.secret, r.Namespace, n.without, strings.Join(n.keys, " and ")))
		case err != nil:
			out = append(out, fmt.Sprintf("%s: whether there is a Secret %s is not known: %s", n.field, n.secret, err))
		case len(lacks) > 0:
			out = append(out, fmt.Sprintf("%s: Secret %s has no %s, so %s; it has %s",
				n.field, n.secret, strings.Join(lacks, " and "), n.without, strings.Join(slices.Sorted(maps.Keys(s.Data)), ", ")))
		}
	}
	return out
}

func lacking(s corev1.Secret, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return len(s.Data[key]) > 0 })
}
