package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// own is what of a team's own rules is to run.
type own struct {
	// contract is nil where there is nothing of a team's own.
	contract *rules.Contract
	// kept are the ConfigMaps that keep it as it was accepted.
	kept workload.Objects
	// before names those of what ran until this look, which cells may read still.
	before []string
}

// newRefused is the metric of rules that are refused.
func newRefused(registry prometheus.Registerer) *prometheus.GaugeVec {
	refused := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pharos_operator_rules_refused", ConstLabels: prometheus.Labels{"kind": "Federation"},
		Help: "1 while the rules of a team's own that a Federation names are refused, and what was accepted before goes on. Absent otherwise.",
	}, []string{"name"})
	registry.MustRegister(refused)
	return refused
}

// ownRules decides which rules of a team's own run: those that are named, if they are
// right, and else those that were accepted last. These are kept before anything is
// rendered from them, and their digest is written down before it is done, for cells
// take what that says and nothing else.
func (r *Reconciler) ownRules(ctx context.Context, f *v1alpha1.Federation) (own, error) {
	p := place(f, r.Namespace)
	known, err := p.Known(ctx, r.Client, []client.ObjectList{&corev1.ConfigMapList{}})
	if err != nil {
		return own{}, err
	}
	before := f.DeepCopy()
	set, contract, refused, err := r.choose(ctx, f, known)
	if err != nil {
		return own{}, err
	}
	kept := set.Keep(p)
	if err := r.keep(ctx, p, kept); err != nil {
		return own{}, err
	}
	f.Status.RulesDigest = set.Digest()
	judge := judgement(f, refused)
	if judge == nil {
		meta.RemoveStatusCondition(&f.Status.Conditions, v1alpha1.ConditionRulesAccepted)
	} else {
		meta.SetStatusCondition(&f.Status.Conditions, *judge)
	}
	if refused != nil {
		r.refused.WithLabelValues(f.Name).Set(1)
	} else {
		r.refused.DeleteLabelValues(f.Name)
	}
	return own{contract, kept, ownrules.Copies(known, before.Status.RulesDigest)}, r.tellOfRules(ctx, before, f)
}

// keep makes the copies of what was accepted, anew where one that is there is not whole: a
// copy cannot be edited, but taken away and made again under its name.
func (r *Reconciler) keep(ctx context.Context, p workload.Place, kept workload.Objects) error {
	var missing workload.Objects
	for _, o := range kept {
		var there corev1.ConfigMap
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: workload.Name(o)}, &there)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading back %s, which keeps rules of your own: %w", workload.Identity(o), err)
		}
		if err == nil && ownrules.IsCopy(&there, o) {
			continue
		}
		missing = append(missing, o)
		if err != nil || p.Foreign(workload.Identity(o), &there) != nil {
			continue // somebody else's is refused below
		}
		r.Log.WarnContext(ctx, "a copy of a team's own rules was changed, and is made anew", slog.String("ConfigMap", there.Name))
		if err := r.Client.Delete(ctx, &there, client.Preconditions{UID: &there.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking away %s, which is not what was accepted: %w", workload.Identity(o), err)
		}
	}
	return p.ApplyOwn(ctx, r.Client, r.Live, nil, missing)
}

// choose reads and checks what is named. What is wrong with that is refused, and not an
// error; an error says that it is not known what to run.
func (r *Reconciler) choose(ctx context.Context, f *v1alpha1.Federation, known map[string]bool) (set ownrules.Set, contract *rules.Contract, refused, err error) {
	named, refused := r.rules.Named(ctx, f.Spec.Rules)
	if _, wrong := errors.AsType[rules.Problems](refused); refused != nil && !wrong {
		return ownrules.Set{}, nil, nil, refused
	}
	if refused == nil {
		if contract, refused = r.rules.Check(f, named); refused == nil {
			return named, contract, nil, nil
		}
	}
	accepted := f.Status.RulesDigest
	if accepted == "" {
		accepted = ownrules.Left(known) // a status can be lost
	}
	if set, contract, err = r.rules.Accepted(ctx, accepted); err != nil {
		return ownrules.Set{}, nil, nil, fmt.Errorf("%w\nwhat spec.rules names: %w", err, refused)
	}
	// Nobody edited these rules, so what they lack was taken from them by the spec.
	if _, err := r.rules.Check(f, set); err != nil {
		return ownrules.Set{}, nil, nil, workload.Invalidf("rules of your own that run do not suit the rest of the spec any more: %w", err)
	}
	return set, contract, refused, nil
}

// judgement is what is said of the rules that a Federation names, nil where it names none.
func judgement(f *v1alpha1.Federation, refused error) *metav1.Condition {
	if f.Spec.Rules == nil {
		return nil
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionRulesAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: f.Generation,
		Message: "what spec.rules names is given to every server of its tier",
	}
	if refused != nil {
		goesOn := "what was accepted before goes on"
		if f.Status.RulesDigest == "" {
			goesOn = "no rules of your own run, as before"
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonRefused, workload.Bounded(goesOn+"; refused is\n"+refused.Error())
	}
	return &c
}

// tellOfRules writes down what runs from now on, and tells of it where that, or what is
// wrong with what is named, has changed.
func (r *Reconciler) tellOfRules(ctx context.Context, before, f *v1alpha1.Federation) error {
	if equality.Semantic.DeepEqual(before.Status, f.Status) {
		return nil
	}
	// Whoever wrote meanwhile, another operator perhaps, may have accepted others.
	if err := r.Client.Status().Patch(ctx, f, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing down which rules of your own run: %w", err)
	}
	// The whole of what is wrong is in the condition: an event holds less.
	was, now := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionRulesAccepted), meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionRulesAccepted)
	if now != nil && (was == nil || was.Message != now.Message) {
		kind, text := corev1.EventTypeNormal, now.Message
		if refused := refusedRules(f); refused != nil {
			kind, text = corev1.EventTypeWarning, refused[0]
		}
		r.Recorder.Eventf(f, nil, kind, now.Reason, "CheckRules", "%s", text)
	}
	r.Log.InfoContext(ctx, "rules of a team's own judged", slog.String("Federation", f.Name), slog.String("digest", f.Status.RulesDigest),
		slog.Bool("refused", now != nil && now.Status == metav1.ConditionFalse))
	return nil
}

// refusedRules is what the Ready condition says of rules that are refused.
func refusedRules(f *v1alpha1.Federation) []string {
	if meta.IsStatusConditionFalse(f.Status.Conditions, v1alpha1.ConditionRulesAccepted) {
		return []string{"what spec.rules names is refused (condition " + v1alpha1.ConditionRulesAccepted + " says why)"}
	}
	return nil
}

// naming asks for the Federations that a ConfigMap is named by.
func (r *Reconciler) naming() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var all v1alpha1.FederationList
		if err := r.Client.List(ctx, &all); err != nil {
			r.Log.ErrorContext(ctx, "listing what names a ConfigMap", slog.String("ConfigMap", o.GetName()), slog.Any("error", err))
		}
		var requests []reconcile.Request
		for _, f := range all.Items {
			if o.GetNamespace() == r.Namespace && ownrules.Names(&f, o.GetName()) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&f)})
			}
		}
		return requests
	})
}
