package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// reply is what a person says to one Remediation.
type reply struct {
	name, by, reason string
	// annotation is where it is written.
	annotation string
	// refuses says why there is nothing to answer.
	refuses func(*v1alpha1.Remediation) error
	// wait is how long to look for what becomes of it.
	wait time.Duration
}

func newApproveCommand(kubeconfig *string) *cobra.Command {
	return newAnswerCommand(kubeconfig, &cobra.Command{
		Use:   "approve NAME",
		Short: "Let a repair that is proposed be done",
		Long: `Let a repair that a policy in mode Approve proposes be done. All evidence, budgets and freezes are judged anew, and it waits for its turn like any other. This writes
the annotation pharos.dev/approved-by, for which it takes the right to patch remediations; kubectl annotate can do the same. Who approves is what --by says: the
API server's audit log alone knows better.`,
	}, reply{annotation: v1alpha1.AnnotationApprovedBy, refuses: notApprovable})
}

func newDenyCommand(kubeconfig *string) *cobra.Command {
	return newAnswerCommand(kubeconfig, &cobra.Command{
		Use:   "deny NAME",
		Short: "Refuse a repair that is proposed",
		Long: `Refuse a repair that is proposed. Its hardware is left alone for the policy's cooldownSeconds: nothing is proposed for it or done to it, whatever the mode. This
writes the annotation pharos.dev/denied-by; kubectl annotate can do the same.`,
	}, reply{annotation: v1alpha1.AnnotationDeniedBy, refuses: notDeniable})
}

func newCancelCommand(kubeconfig *string) *cobra.Command {
	return newAnswerCommand(kubeconfig, &cobra.Command{
		Use:   "cancel NAME",
		Short: "Take back a repair that no node operator has begun",
		Long: `Take back a repair that is decided, and that no node operator has begun. Its hardware is left alone for the policy's cooldownSeconds. What runs is not
interrupted. This writes the annotation pharos.dev/denied-by; kubectl annotate can do the same.`,
	}, reply{annotation: v1alpha1.AnnotationDeniedBy, refuses: notCancellable})
}

func newAnswerCommand(kubeconfig *string, cmd *cobra.Command, a reply) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.name = args[0]
		return onHub(kubeconfig, a.give)(cmd, args)
	}
	cmd.Flags().StringVar(&a.by, "by", "", "who says so (default: who you are to the hub's API server)")
	cmd.Flags().StringVar(&a.reason, "reason", "", "why, for whoever looks at it later")
	cmd.Flags().DurationVar(&a.wait, "wait", 20*time.Second, "how long to wait for what becomes of it")
	return cmd
}

func (a reply) give(ctx context.Context, hub client.Client, told io.Writer) error {
	if a.by == "" {
		var err error
		if a.by, err = whoAmI(ctx, hub); err != nil {
			return err
		}
	}
	rem := &v1alpha1.Remediation{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := hub.Get(ctx, client.ObjectKey{Name: a.name}, rem); err != nil {
			return err
		}
		if err := a.refuses(rem); err != nil {
			return err
		}
		return a.write(ctx, hub, rem)
	})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("writing the annotation %s on remediation %s, which takes the right to patch remediations; nothing has changed: %w", a.annotation, a.name, err)
	case err != nil:
		return fmt.Errorf("answering for remediation %s; nothing has changed: %w", a.name, err)
	}
	t := rem.Spec.Target
	fmt.Fprintf(told, "%s of machine %s in cell %s: answered by %s\n", rem.Spec.Action, t.Machine, t.Cell, a.by)
	return a.tell(ctx, hub, rem, told)
}

// write is on condition that the record is as it was read.
func (a reply) write(ctx context.Context, hub client.Client, rem *v1alpha1.Remediation) error {
	before := rem.DeepCopy()
	if rem.Annotations == nil {
		rem.Annotations = map[string]string{}
	}
	rem.Annotations[a.annotation] = a.by
	delete(rem.Annotations, v1alpha1.AnnotationAnswerReason)
	if a.reason != "" {
		rem.Annotations[v1alpha1.AnnotationAnswerReason] = clipped(a.reason)
	}
	return hub.Patch(ctx, rem, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// whoAmI is who the API server takes the caller for.
func whoAmI(ctx context.Context, hub client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := hub.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the hub's API server who you are; say it with --by: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// tell waits for the remediator to take note of the answer.
func (a reply) tell(ctx context.Context, hub client.Client, rem *v1alpha1.Remediation, told io.Writer) error {
	end := time.Now().Add(a.wait)
	for !heard(rem, a.annotation) {
		if !time.Now().Before(end) {
			fmt.Fprintf(told, "no remediator has taken note of it yet; look at: kubectl get remediation %s\n", a.name)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		if err := hub.Get(ctx, client.ObjectKeyFromObject(rem), rem); err != nil {
			return fmt.Errorf("looking at what became of remediation %s, which is answered: %w", a.name, err)
		}
	}
	fmt.Fprintf(told, "%s, %s: %s\n", rem.CurrentPhase(), rem.Status.Reason, rem.Status.Message)
	return nil
}

// heard says whether the remediator has said something since; a record that ended has
// heard whatever it will.
func heard(rem *v1alpha1.Remediation, annotation string) bool {
	if annotation == v1alpha1.AnnotationApprovedBy {
		return rem.Status.Approval != nil || rem.CurrentPhase().Final()
	}
	return rem.CurrentPhase().Final()
}

func notApprovable(rem *v1alpha1.Remediation) error {
	switch at := rem.Spec.ExpiresAt; {
	case rem.CurrentPhase() != v1alpha1.RemediationProposed:
		return fmt.Errorf("it is not proposed any more: it is %s", state(rem))
	case rem.Spec.Mode != v1alpha1.ModeApprove:
		return fmt.Errorf("policy %s only recommends it; with spec.mode Approve it would ask", rem.Spec.PolicyName)
	case at != nil && !time.Now().Before(at.Time):
		return fmt.Errorf("it could be approved until %s; if the machine is still ill it is proposed again", at.UTC().Format(time.RFC3339))
	}
	if by, denied := rem.Annotations[v1alpha1.AnnotationDeniedBy]; denied {
		return fmt.Errorf("it is denied by %s", cmp.Or(by, "somebody"))
	}
	return nil
}

func notDeniable(rem *v1alpha1.Remediation) error {
	switch phase := rem.CurrentPhase(); {
	case phase == v1alpha1.RemediationProposed:
		return nil
	case phase.Final():
		return fmt.Errorf("it is over: it is %s", state(rem))
	}
	return fmt.Errorf("it is decided: it is %s. To take it back, if it has not begun: pharos remediation cancel %s", state(rem), rem.Name)
}

func notCancellable(rem *v1alpha1.Remediation) error {
	switch phase := rem.CurrentPhase(); {
	case phase == v1alpha1.RemediationProposed:
		return fmt.Errorf("nothing is decided yet, it is proposed. To refuse it: pharos remediation deny %s", rem.Name)
	case phase.Final():
		return fmt.Errorf("it is over: it is %s", state(rem))
	case phase == v1alpha1.RemediationVerifying, rem.Status.Reason == reasonRepairRunning:
		return errors.New("the node operator has begun, and what runs is not interrupted: it is " + state(rem))
	}
	return nil
}

// reasonRepairRunning is that of a repair that the node operator has begun.
const reasonRepairRunning = "RepairRunning"

// state is how far a repair is, and why.
func state(rem *v1alpha1.Remediation) string {
	words := []string{string(rem.CurrentPhase())}
	for _, word := range []string{rem.Status.Reason, rem.Status.Message} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}
