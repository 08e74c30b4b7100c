// Package reboot plays the board management controller of a worker node: it is
// what the local fleet's repair Job runs. It resets the machine of a node whose
// kubelet is dead: the node gets a new boot id, and its kubelet runs again.
package reboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/fault"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// Options say which machine to reset.
type Options struct {
	// KubeconfigDir holds a kubeconfig for each business cluster, <cluster>.yaml.
	KubeconfigDir string
	// Getenv reads the environment that the node operator gives a repair Job.
	Getenv func(string) string
	Log    *slog.Logger
}

// Run resets the machine. It fails, and changes nothing, when the action is not
// a reboot or the node does not exist.
func Run(ctx context.Context, o Options) error {
	cluster, node, action := o.Getenv("PHAROS_CLUSTER"), o.Getenv("PHAROS_NODE"), o.Getenv("PHAROS_ACTION")
	if cluster == "" || node == "" {
		return errors.New("PHAROS_CLUSTER and PHAROS_NODE must say which machine to reboot: run this from a repair Job")
	}
	if action != string(v1alpha1.ActionReboot) {
		return fmt.Errorf("action %q asked for: this site can only %s", action, v1alpha1.ActionReboot)
	}
	if !filepath.IsLocal(cluster) {
		return fmt.Errorf("cluster %q is not a name", cluster)
	}
	config, err := kube.Config(filepath.Join(o.KubeconfigDir, cluster+".yaml"))
	if err != nil {
		return fmt.Errorf("finding cluster %s: %w", cluster, err)
	}
	if err := Reset(ctx, config, node); err != nil {
		return fmt.Errorf("rebooting node %s of cluster %s: %w", node, cluster, err)
	}
	o.Log.Info("node rebooted", slog.String("cluster", cluster), slog.String("node", node),
		slog.String("remediation", o.Getenv("PHAROS_REMEDIATION_ID")))
	return nil
}

// Reset gives the node a new boot id and starts its kubelet. A fault that a
// reset mends is gone; a flapping node goes on flapping.
func Reset(ctx context.Context, config *rest.Config, name string) error {
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	// The boot id comes first: a node that is Ready again must not be seen with the old one.
	boot := fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q}}}`, uuid.NewUUID())
	if err := c.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(boot))); err != nil {
		return fmt.Errorf("setting the boot id: %w", err)
	}
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[layout.LabelKubelet] = layout.KubeletRunning
	if node.Annotations[layout.AnnotationFault] != string(fault.NodeFlap) {
		delete(node.Annotations, layout.AnnotationFault)
	}
	if err := c.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("starting the kubelet: %w", err)
	}
	return nil
}
