package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/promapi"
)

const readTimeout = 5 * time.Second

// FleetOptions say where the parts of a fleet are.
type FleetOptions struct {
	// Clusters are the API servers by name: hub, cells and business clusters.
	Clusters map[string]*rest.Config
	// Hub names the hub among them.
	Hub string
	// Namespace that the fleet's machines and clusters stand in.
	MachineNamespace string
	// MessagesURL lists what the robot accepted.
	MessagesURL string
}

// Fleet is the World of a running local fleet. It is for one goroutine.
type Fleet struct {
	options    FleetOptions
	clients    map[string]client.Client
	prometheus map[string]*promapi.Client // by address
}

// NewFleet makes clients; it reads nothing yet.
func NewFleet(o FleetOptions) (*Fleet, error) {
	f := &Fleet{
		options:    o,
		clients:    make(map[string]client.Client, len(o.Clusters)),
		prometheus: make(map[string]*promapi.Client),
	}
	for name, config := range o.Clusters {
		config = rest.CopyConfig(config)
		config.Timeout = readTimeout
		c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
		if err != nil {
			return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
		}
		f.clients[name] = c
	}
	if f.clients[o.Hub] == nil {
		return nil, fmt.Errorf("connecting to the fleet: no API server is named %q", o.Hub)
	}
	return f, nil
}

// NodeReady reads the Node in its business cluster.
func (f *Fleet) NodeReady(ctx context.Context, t Target) (bool, string, error) {
	var node corev1.Node
	if err := f.get(ctx, t.Cluster, client.ObjectKey{Name: t.Node}, &node); err != nil {
		return false, "", err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, string(c.Status), nil
		}
	}
	return false, "missing", nil
}

// Remediation lists the records in the hub.
func (f *Fleet) Remediation(ctx context.Context, t Target) (*v1alpha1.Remediation, error) {
	var list v1alpha1.RemediationList
	if err := f.clients[f.options.Hub].List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing remediations in the hub: %w", err)
	}
	var newest *v1alpha1.Remediation
	for i := range list.Items {
		r := &list.Items[i]
		// Creation times are whole seconds.
		old := r.CreationTimestamp.Time.Before(t.Since.Truncate(time.Second))
		if old || r.Spec.Target.Cell != t.Cell || r.Spec.Target.Node != t.Node {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&r.CreationTimestamp) {
			newest = r
		}
	}
	return newest, nil
}

// Machine reads the Machine that bears the node's name.
func (f *Fleet) Machine(ctx context.Context, t Target) (*v1alpha1.Machine, error) {
	var m v1alpha1.Machine
	key := client.ObjectKey{Namespace: f.options.MachineNamespace, Name: t.Node}
	if err := f.get(ctx, t.Cell, key, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// JobDone finds the repair Job by the request's id.
func (f *Fleet) JobDone(ctx context.Context, t Target, id string) (string, bool, error) {
	var jobs batchv1.JobList
	if err := f.list(ctx, t.Cell, &jobs); err != nil {
		return "", false, err
	}
	for _, job := range jobs.Items {
		if job.Name == "repair-"+id {
			return job.Name, job.Status.Succeeded > 0, nil
		}
	}
	return "", false, nil
}

// Delivered reads what the robot accepted.
func (f *Fleet) Delivered(ctx context.Context, t Target, resolved bool) (string, error) {
	messages, err := f.messages(ctx)
	if err != nil {
		return "", err
	}
	word := "FIRING"
	if resolved {
		word = "RESOLVED"
	}
	for _, m := range messages {
		if !m.Time.Before(t.Since) && m.says(word, t.Node) {
			return m.Title, nil
		}
	}
	return "", nil
}

// says looks for an alert about the node under a heading with the word. A
// message has a heading for each alert.
func (m message) says(word, node string) bool {
	for alert := range strings.SplitSeq(m.Text, "### ") {
		if strings.HasPrefix(alert, word) && strings.Contains(alert, node) {
			return true
		}
	}
	return false
}

type message struct {
	Time  time.Time `json:"time"`
	Title string    `json:"title"`
	Text  string    `json:"text"`
}

func (f *Fleet) messages(ctx context.Context) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.options.MessagesURL, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the robot: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the robot: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var messages []message
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 16<<20)).Decode(&messages); err != nil {
		return nil, fmt.Errorf("reading the robot's messages: %w", err)
	}
	return messages, nil
}

func (f *Fleet) get(ctx context.Context, cluster string, key client.ObjectKey, into client.Object) error {
	c, ok := f.clients[cluster]
	if !ok {
		return fmt.Errorf("reading %s: the fleet has no cluster %q", key.Name, cluster)
	}
	if err := c.Get(ctx, key, into); err != nil {
		return fmt.Errorf("reading %T %s in cluster %s: %w", into, key.Name, cluster, err)
	}
	return nil
}

func (f *Fleet) list(ctx context.Context, cluster string, into client.ObjectList) error {
	c, ok := f.clients[cluster]
	if !ok {
		return fmt.Errorf("listing: the fleet has no cluster %q", cluster)
	}
	if err := c.List(ctx, into); err != nil {
		return fmt.Errorf("listing %T in cluster %s: %w", into, cluster, err)
	}
	return nil
}
