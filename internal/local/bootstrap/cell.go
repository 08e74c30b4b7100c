package bootstrap

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

const (
	// repairJobConfigMap holds the site's Job that repairs a machine.
	repairJobConfigMap = "repair-job"
	repairJobKey       = "job.yaml"
	// bmcSecret holds a kubeconfig for each business cluster of the cell, under
	// the cluster's name and .yaml. The repair Job mounts it.
	bmcSecret = "bmc"
	bmcPath   = "/etc/bmc"
	// jobsKeptSeconds is how long a finished repair Job can be looked at.
	jobsKeptSeconds = 24 * 60 * 60
)

func (i *installer) installCell(ctx context.Context, to *cluster, c layout.Cluster) error {
	if err := i.installMeta(ctx, to, c); err != nil {
		return err
	}
	objects, err := deploy.Cell()
	if err != nil {
		return err
	}
	if err := to.applyAll(ctx, objects); err != nil {
		return err
	}
	if err := to.apply(ctx, namespace(Namespace)); err != nil {
		return err
	}
	rights, err := deploy.ClusterNamespace(Namespace)
	if err != nil {
		return err
	}
	if err := to.applyAll(ctx, rights); err != nil {
		return err
	}
	if err := i.applyRepairJob(ctx, to); err != nil {
		return err
	}
	for _, account := range []string{deploy.OperatorAccess, deploy.RemediatorAccess} {
		if err := i.keepToken(ctx, to, c, account); err != nil {
			return err
		}
	}
	return nil
}

// installMeta prepares the hub or a cell for its process kubelet and Pharos' resources.
func (i *installer) installMeta(ctx context.Context, to *cluster, c layout.Cluster) error {
	if err := to.apply(ctx, kubeletRights()...); err != nil {
		return err
	}
	if err := i.Prepared(c); err != nil {
		return err
	}
	crds, err := deploy.CRDs()
	if err != nil {
		return err
	}
	return to.applyCRDs(ctx, crds)
}

// hostClusters gives a cell the business clusters it hosts: the ways into them
// and their machines.
func (i *installer) hostClusters(ctx context.Context, cell layout.Cluster) error {
	to := i.clusters[cell.Name]
	bmc := secret(Namespace, bmcSecret)
	for _, c := range layout.HostedBy(cell) {
		bmc.Data[c.Name+".yaml"] = i.kubeconfig(c, accountBMC)
		observer := secret(Namespace, c.Name+"-observer")
		observer.Data[kube.SecretKeyKubeconfig] = i.kubeconfig(c, deploy.Observer)
		checks := secret(Namespace, nodeCheckSecret(c))
		checks.Data[kube.SecretKeyKubeconfig] = i.kubeconfig(c, deploy.NodeCheckAccess)
		if err := to.apply(ctx, observer, checks, clusterObject(c)); err != nil {
			return err
		}
		for _, n := range c.Nodes() {
			if err := to.apply(ctx, machine(c, n)); err != nil {
				return err
			}
		}
	}
	return to.apply(ctx, bmc)
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
}

func clusterObject(c layout.Cluster) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: c.Name},
		Spec: v1alpha1.ClusterSpec{
			Profile:                  "standard",
			Size:                     v1alpha1.ClusterSmall,
			Version:                  "v1.37.2",
			ObserverKubeconfigSecret: c.Name + "-observer",

			NodeCheckKubeconfigSecret: nodeCheckSecret(c),
		},
	}
}

func nodeCheckSecret(c layout.Cluster) string { return c.Name + "-node-checks" }

func machine(c layout.Cluster, n layout.Node) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: n.Name},
		Spec: v1alpha1.MachineSpec{
			ClusterName:   c.Name,
			NodeName:      n.Name,
			Pool:          layout.Pool,
			Roles:         []string{"worker"},
			ProviderID:    n.ProviderID,
			HardwareID:    n.HardwareID,
			Address:       n.Address,
			FailureDomain: v1alpha1.FailureDomain{Zone: n.Zone, Rack: n.Rack},
			State:         v1alpha1.MachineInUse,
		},
	}
}

func (i *installer) applyRepairJob(ctx context.Context, to *cluster) error {
	job, err := yaml.Marshal(repairJob(i.Image))
	if err != nil {
		return fmt.Errorf("encoding the repair Job: %w", err)
	}
	return to.apply(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: repairJobConfigMap},
		Data:       map[string]string{repairJobKey: string(job)},
	})
}

// repairJob is the site's own Job. The node operator adds the environment that
// says which machine and which action.
func repairJob(image string) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: ptr.To(int32(jobsKeptSeconds)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                corev1.RestartPolicyNever,
				AutomountServiceAccountToken: ptr.To(false),
				Containers: []corev1.Container{{
					Name:         "reboot",
					Image:        image,
					Args:         []string{"local", "reboot", "--kubeconfig-dir=" + bmcPath},
					VolumeMounts: []corev1.VolumeMount{{Name: "bmc", MountPath: bmcPath, ReadOnly: true}},
				}},
				Volumes: []corev1.Volume{{
					Name:         "bmc",
					VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: bmcSecret}},
				}},
			}},
		},
	}
}
