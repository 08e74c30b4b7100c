package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// gossipPort is where Alertmanagers tell each other what was told and silenced.
const gossipPort = 9094

// Alertmanagers are the members of one cluster.
type Alertmanagers struct {
	Part
	Replicas int32
	Files    map[string][]byte
	// Secrets are mounted each in the folder of SecretsPath named for its key. It
	// starts without them: they are read for each call, and what is missing for one must
	// not keep all others from being told.
	Secrets map[string]string
}

// AlertmanagerServers returns the objects of stock Alertmanagers, which are alike: any
// of them can tell people, and the others then know that it has. They do not follow
// their files, so a change of these is a new pod, of one member after another.
func (p Place) AlertmanagerServers(a Alertmanagers) Objects {
	volumes := []volume{configVolume("config", "/etc/alertmanager", a.Name), templateVolume(dataVolume, "/alertmanager")}
	volumes = append(volumes, secretVolumes(a.Secrets, true)...)
	args := []string{
		"--config.file=/etc/alertmanager/alertmanager.yml",
		"--storage.path=/alertmanager",
		listen("web.listen-address", a.Port),
		// By it one sees which of the receivers, all of them web hooks, fails.
		"--enable-feature=receiver-name-in-metrics",
	}
	c := container(Alertmanager, a.Part, append(args, p.gossip(a)...), health{"/-/healthy", "/-/ready"}, volumes)
	template := pod(a.Part, p.podLabels(a.Part, Alertmanager), Hash(a.Files), false, c, volumes)
	set := p.statefulSet(a.Part, Alertmanager, template, resource.MustParse(AlertmanagerVolume))
	set.Spec.WithReplicas(a.Replicas)
	objects := append(p.ConfigMaps(a.Part, Alertmanager, a.Files), set)
	if a.Replicas > 1 {
		template.Spec.WithTopologySpreadConstraints(spread(a.Part, Alertmanager)...)
		objects = append(objects, p.PairBudget(a.Part, Alertmanager)...)
	}
	return objects
}

// gossip names all members at once, by what the name of their Service resolves to and
// is asked for again and again: a member more is no change of the others.
func (p Place) gossip(a Alertmanagers) []string {
	if a.Replicas < 2 {
		return []string{"--cluster.listen-address="}
	}
	return []string{
		listen("cluster.listen-address", gossipPort),
		fmt.Sprintf("--cluster.peer=%s.%s.svc:%d", peersName(a.Part), p.Namespace, gossipPort),
		// A pod that comes back has another address, so the one it had is given up.
		"--cluster.reconnect-timeout=5m",
	}
}

func peersName(part Part) string { return part.Name + "-peers" }

// AlertmanagerPeers is the Service by which members find each other, those as well
// that are not ready.
func (p Place) AlertmanagerPeers(part Part) runtime.ApplyConfiguration {
	s := corev1ac.Service(peersName(part), p.Namespace).
		WithLabels(p.labels(part, Alertmanager)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(Selector(part, Alertmanager)).
			WithPorts(corev1ac.ServicePort().WithName("gossip").WithPort(gossipPort)))
	if p.Owner != nil {
		s.WithOwnerReferences(p.Owner)
	}
	return s
}
