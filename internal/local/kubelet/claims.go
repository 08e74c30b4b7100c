package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// StorageClass is the class of claims that the kubelet fulfils, beside those that name no class.
	StorageClass = "local.pharos.dev"
	// provisionedBy on a volume says that a kubelet made it, and which node has its folder.
	provisionedBy = "local.pharos.dev/provisioned-by"
	// bindCompleted and boundByController tell Kubernetes that a claim's binding is done.
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
)

// provisionClaims plays the provisioner and the binder of volume claims until the context ends: the scheduler does not
// place a pod whose claims are not bound.
func (k *Kubelet) provisionClaims(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := k.syncClaims(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("Fulfilling volume claims failed, trying again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-k.caches.claimsChanged:
		case <-ticker.C:
		}
	}
}

// syncClaims binds the claims that wait, and removes the volumes whose claims are gone.
func (k *Kubelet) syncClaims(ctx context.Context) error {
	claims, _ := k.caches.claims.Lister().List(labels.Everything()) // listing a cache does not fail
	volumes, _ := k.caches.volumes.Lister().List(labels.Everything())
	var errs []error
	living := map[string]bool{}
	for _, c := range claims {
		living[volumeName(c)] = true
		if ours(c) && c.DeletionTimestamp == nil && c.Status.Phase != corev1.ClaimBound {
			errs = append(errs, k.bind(ctx, c))
		}
	}
	for _, v := range volumes {
		if v.Annotations[provisionedBy] == k.opts.NodeName && !living[v.Name] {
			errs = append(errs, k.removeVolume(ctx, v))
		}
	}
	return errors.Join(errs...)
}

// ours says whether a claim asks for this kind of volume.
func ours(c *corev1.PersistentVolumeClaim) bool {
	class := c.Spec.StorageClassName
	return (class == nil || *class == "" || *class == StorageClass) && (c.Spec.VolumeName == "" || c.Spec.VolumeName == volumeName(c))
}

// volumeName is the same for a claim however often it is tried.
func volumeName(c *corev1.PersistentVolumeClaim) string { return "pvc-" + string(c.UID) }

// bind makes the volume of a claim and binds the two. Each step is repeatable.
func (k *Kubelet) bind(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	folder := k.folderOfClaim(c.Namespace, c.Name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("creating folder of claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	if err := k.createVolume(ctx, c, folder); err != nil {
		return fmt.Errorf("creating volume of claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	if err := k.bindClaim(ctx, c); err != nil {
		return fmt.Errorf("binding claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	k.log.Info("Volume claim bound", slog.String("claim", c.Namespace+"/"+c.Name), slog.String("volume", volumeName(c)))
	return nil
}

func (k *Kubelet) createVolume(ctx context.Context, c *corev1.PersistentVolumeClaim, folder string) error {
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	v, err := k.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(c),
			Annotations: map[string]string{provisionedBy: k.opts.NodeName, boundByController: "yes"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      c.Spec.Resources.Requests,
			AccessModes:                   c.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, // the kubelet removes it itself
			StorageClassName:              class,
			VolumeMode:                    c.Spec.VolumeMode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
			NodeAffinity:                  k.onThisNode(),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
			},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	v.Status.Phase = corev1.VolumeBound
	_, err = k.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // somebody binds, too: their word is as good
	}
	return err
}

// onThisNode keeps the pods that use a volume on the node that has its folder.
func (k *Kubelet) onThisNode() *corev1.VolumeNodeAffinity {
	here := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{k.opts.NodeName}}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{here}},
	}}}
}

func (k *Kubelet) bindClaim(ctx context.Context, cached *corev1.PersistentVolumeClaim) error {
	claims := k.client.CoreV1().PersistentVolumeClaims(cached.Namespace)
	c := cached.DeepCopy()
	if c.Spec.VolumeName == "" || c.Annotations[bindCompleted] == "" {
		c.Spec.VolumeName = volumeName(c)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, bindCompleted, "yes")
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, boundByController, "yes")
		var err error
		if c, err = claims.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	c.Status.Phase = corev1.ClaimBound
	c.Status.AccessModes, c.Status.Capacity = c.Spec.AccessModes, c.Spec.Resources.Requests
	_, err := claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

// removeVolume deletes a volume whose claim is gone, with its folder unless another claim of the name has it by now.
func (k *Kubelet) removeVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ref := v.Spec.ClaimRef
	_, err := k.client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if err := os.RemoveAll(k.folderOfClaim(ref.Namespace, ref.Name)); err != nil {
			return fmt.Errorf("removing folder of claim %s/%s: %w", ref.Namespace, ref.Name, err)
		}
	case err != nil:
		return fmt.Errorf("looking for claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	// As long as a volume counts as bound, Kubernetes protects it from deletion.
	released := v.DeepCopy()
	released.Status.Phase = corev1.VolumeReleased
	volumes := k.client.CoreV1().PersistentVolumes()
	if v.Status.Phase != corev1.VolumeReleased {
		if _, err := volumes.UpdateStatus(ctx, released, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("releasing volume %s: %w", v.Name, err)
		}
	}
	if v.DeletionTimestamp != nil {
		return nil
	}
	err = volumes.Delete(ctx, v.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", v.Name, err)
	}
	return nil
}

func (k *Kubelet) folderOfClaim(namespace, name string) string {
	return filepath.Join(k.opts.Root, "claims", namespace, name)
}

// claimFolder returns the folder of a bound claim.
func (k *Kubelet) claimFolder(namespace, name string) (string, error) {
	c, err := k.caches.claims.Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return "", err
	}
	if c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName != volumeName(c) {
		return "", fmt.Errorf("claim %s is not bound to a volume of this node yet", name)
	}
	return k.folderOfClaim(namespace, name), nil
}
