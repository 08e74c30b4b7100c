package bootstrap

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

const (
	robotName   = "oncall"
	robotSecret = "dingtalk-oncall"
	// intervalSeconds of scrapes and evaluations: short, so that a person who
	// watches sees the loop close.
	intervalSeconds = 5
)

func (i *installer) installHub(ctx context.Context, to *cluster, c layout.Cluster) error {
	if err := i.installMeta(ctx, to, c); err != nil {
		return err
	}
	objects, err := deploy.Hub(i.Image)
	if err != nil {
		return err
	}
	if err := to.applyAll(ctx, objects); err != nil {
		return err
	}
	robot := secret(deploy.Namespace, robotSecret)
	robot.Data["accessToken"] = []byte(i.Robot.AccessToken)
	robot.Data["secret"] = []byte(i.Robot.Secret)
	return to.apply(ctx, robot)
}

// runFleet says in the hub what is to run: the federation, its cells, and the
// policy by which nodes are repaired.
func (i *installer) runFleet(ctx context.Context) error {
	hub := i.clusters[layout.Hub().Name]
	for _, c := range layout.Cells() {
		operator := secret(deploy.Namespace, operatorSecret(c))
		operator.Data[kube.SecretKeyKubeconfig] = i.kubeconfig(c, deploy.OperatorAccess)
		remediator := secret(deploy.Namespace, remediatorSecret(c))
		remediator.Data[kube.SecretKeyKubeconfig] = i.kubeconfig(c, deploy.RemediatorAccess)
		if err := hub.apply(ctx, operator, remediator, i.cell(c)); err != nil {
			return err
		}
	}
	return hub.apply(ctx, i.federation(), policy())
}

func operatorSecret(c layout.Cluster) string   { return c.Name + "-operator" }
func remediatorSecret(c layout.Cluster) string { return c.Name + "-remediator" }

func (i *installer) network(c layout.Cluster) v1alpha1.Network {
	return v1alpha1.Network{
		ServiceAddressing: v1alpha1.ServiceClusterIP,
		APIServerURL:      i.Layout.APIServerURL(c),
	}
}

func (i *installer) cell(c layout.Cluster) *v1alpha1.Cell {
	return &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name},
		Spec: v1alpha1.CellSpec{
			Geography:                  c.Geography,
			Region:                     c.Region,
			Size:                       v1alpha1.CellSmall,
			KubeconfigSecret:           operatorSecret(c),
			RemediatorKubeconfigSecret: remediatorSecret(c),
			Network:                    i.network(c),
			RepairJobConfigMap:         repairJobConfigMap,
			Edge:                       i.edge(c),
		},
	}
}

// edge names the servers of the cell's control planes, which are processes and no
// pods. One etcd serves them all, each under a prefix of its own: it is the meta
// cluster's, since a server that is named for two would count twice. There is nothing
// to be scraped on a node: the workers are played, and the process kubelets have
// neither a kubelet's metrics nor a container to measure.
func (i *installer) edge(cell layout.Cluster) v1alpha1.Edge {
	e := v1alpha1.Edge{Skip: []v1alpha1.TargetComponent{"kubelet", "cadvisor", "node-exporter"}}
	for _, c := range append([]layout.Cluster{cell}, layout.HostedBy(cell)...) {
		name := c.Name
		servers := map[v1alpha1.TargetComponent]string{
			"kube-controller-manager": i.Layout.ControllerManagerAddress(c),
			"kube-scheduler":          i.Layout.SchedulerAddress(c),
		}
		if c.Role == layout.RoleCell {
			name = "" // the meta cluster itself
			servers["etcd"] = i.Layout.EtcdMetricsAddress()
		}
		for component, address := range servers {
			e.StaticTargets = append(e.StaticTargets, v1alpha1.StaticTarget{Component: component, Cluster: name, Addresses: []string{address}})
		}
	}
	slices.SortFunc(e.StaticTargets, func(a, b v1alpha1.StaticTarget) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Component, b.Component))
	})
	return e
}

func (i *installer) federation() *v1alpha1.Federation {
	f := &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: FederationName},
		Spec: v1alpha1.FederationSpec{
			IntervalSeconds: ptr.To(int32(intervalSeconds)),
			Network:         i.network(layout.Hub()),
			Alerting: v1alpha1.Alerting{
				GroupWaitSeconds:     ptr.To(int32(1)),
				GroupIntervalSeconds: ptr.To(int32(5)),
				DingTalk:             []v1alpha1.DingTalkRobot{{Name: robotName, URL: i.Robot.URL, SecretName: robotSecret}},
			},
		},
	}
	for _, c := range layout.Cells() {
		f.Spec.Geographies = append(f.Spec.Geographies, v1alpha1.Geography{Name: c.Geography})
	}
	return f
}

func policy() *v1alpha1.RemediationPolicy {
	return &v1alpha1.RemediationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName},
		Spec: v1alpha1.RemediationPolicySpec{
			Mode:  v1alpha1.ModeAct,
			Pools: []string{layout.Pool},
			// Short times, so that a person who watches sees the loop close. Kubernetes'
			// own forty seconds come before them. A node that is repaired sooner than
			// PharosNodeNotReady waits, with an interval for each way, is told to nobody.
			UnhealthySeconds: ptr.To(int32(20)),
			TimeoutSeconds:   ptr.To(int32(300)),
			CooldownSeconds:  ptr.To(int32(60)),
			Verification:     v1alpha1.Verification{NodeCheck: nodeCheck()},
		},
	}
}

// nodeCheck is a check that a worker node, which kwok plays, passes: see its stages.
func nodeCheck() *v1alpha1.NodeCheckPod {
	return &v1alpha1.NodeCheckPod{Image: "busybox:1.37", Command: []string{"true"}, TimeoutSeconds: ptr.To(int32(60))}
}
