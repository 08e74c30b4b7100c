package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// stopBudget is the FleetDisruptionBudget of the global stop.
const stopBudget = "stop"

func newRemediationCommand() *cobra.Command {
	var kubeconfig, reason string
	cmd := &cobra.Command{
		Use:   "remediation",
		Short: "Answer what the remediator proposes, take repairs back, and stop them all",
	}
	cmd.PersistentFlags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub; default $KUBECONFIG, else the pod's own")
	stop := &cobra.Command{
		Use:   "stop --reason TEXT",
		Short: "Begin no repair any more, and take back requests that were not answered",
		Long: `Begin no repair any more, in any cell, and take back requests that no node operator has answered. Repairs that run are not interrupted. This
writes the FleetDisruptionBudget "stop", which every remediator reads before each write; kubectl can do the same.`,
		Args: cobra.NoArgs,
		RunE: onHub(&kubeconfig, func(ctx context.Context, hub client.Client, told io.Writer) error {
			return stopRepairs(ctx, hub, reason, told)
		}),
	}
	stop.Flags().StringVar(&reason, "reason", "", "why, for whoever is on call")
	cobra.CheckErr(stop.MarkFlagRequired("reason"))
	resume := &cobra.Command{
		Use:   "resume",
		Short: "Let repairs go on after a stop",
		Args:  cobra.NoArgs,
		RunE:  onHub(&kubeconfig, resumeRepairs),
	}
	cmd.AddCommand(stop, resume, newApproveCommand(&kubeconfig), newDenyCommand(&kubeconfig), newCancelCommand(&kubeconfig))
	return cmd
}

// onHub runs what needs the hub's API server.
func onHub(kubeconfig *string, do func(context.Context, client.Client, io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		config, err := kube.Config(*kubeconfig)
		if err != nil {
			return err
		}
		hub, err := client.New(config, client.Options{Scheme: kube.Scheme()})
		if err != nil {
			return fmt.Errorf("connecting to the hub: %w", err)
		}
		return do(cmd.Context(), hub, cmd.OutOrStdout())
	}
}

func stopRepairs(ctx context.Context, hub client.Client, reason string, told io.Writer) error {
	spec := v1alpha1.FleetDisruptionBudgetSpec{Level: v1alpha1.BudgetFleet, Freeze: v1alpha1.Now, Reason: clipped(reason)}
	stop := &v1alpha1.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: stopBudget}, Spec: spec}
	err := hub.Create(ctx, stop)
	if apierrors.IsAlreadyExists(err) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := hub.Get(ctx, client.ObjectKeyFromObject(stop), stop); err != nil {
				return err
			}
			stop.Spec = spec
			return hub.Update(ctx, stop)
		})
	}
	if err != nil {
		return fmt.Errorf("writing the FleetDisruptionBudget %s, without which repairs go on: %w", stopBudget, err)
	}
	_, err = fmt.Fprintln(told, "no repair is asked for any more. Requests that stand are taken back within seconds, and lapse within a minute;\n"+
		"what runs goes on. To let repairs begin again: pharos remediation resume")
	return err
}

// clipped is what the API takes of a reason: nobody who stops repairs is to be told
// that it was too long.
func clipped(reason string) string {
	const most = 256 // characters, as in the API
	if runes := []rune(reason); len(runes) > most {
		return string(runes[:most])
	}
	return reason
}

// resumeRepairs ends the stop, and says what else holds repairs of the whole fleet.
func resumeRepairs(ctx context.Context, hub client.Client, told io.Writer) error {
	err := hub.Delete(ctx, &v1alpha1.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: stopBudget}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the FleetDisruptionBudget %s; repairs are still stopped: %w", stopBudget, err)
	}
	if err != nil {
		fmt.Fprintln(told, "repairs were not stopped")
	} else {
		fmt.Fprintln(told, "repairs are not stopped any more")
	}
	var all v1alpha1.FleetDisruptionBudgetList
	if err := hub.List(ctx, &all); err != nil {
		return fmt.Errorf("listing disruption budgets, to see what else stops repairs: %w", err)
	}
	for _, b := range all.Items {
		if b.Name != stopBudget && b.Spec.Freeze == v1alpha1.Now {
			fmt.Fprintf(told, "the budget %s of level %s still does: %s\n", b.Name, b.Spec.Level, b.Spec.Reason)
		}
		for _, w := range b.Spec.Freezes {
			if now := time.Now(); !now.Before(w.From.Time) && now.Before(w.Until.Time) {
				fmt.Fprintf(told, "the budget %s of level %s does until %s: %s\n", b.Name, b.Spec.Level, w.Until.UTC().Format(time.RFC3339), w.Reason)
			}
		}
	}
	return nil
}
