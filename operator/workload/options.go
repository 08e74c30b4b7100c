package workload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of a controller that runs parts. All are required.
type Options struct {
	// Client writes in the hub; its reads may come from a cache.
	Client client.Client
	// Live reads from the hub's API server itself.
	Live client.Reader
	// Recorder keeps the events of changes.
	Recorder events.EventRecorder
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Log takes one line for each change.
	Log *slog.Logger
	// Namespace of the parts, and of the Secrets that they need.
	Namespace string
}

// Validate says of the controller named that an option is missing.
func (o Options) Validate(controller string) error {
	if o.Client == nil || o.Live == nil || o.Recorder == nil || o.Registry == nil || o.Log == nil || o.Namespace == "" {
		return fmt.Errorf("%s controller: every option is required", controller)
	}
	return nil
}

// All asks, on every event, for each object of the list's kind: what happened
// does not say which of them it is about.
func (o Options) All(list client.ObjectList) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		all := list.DeepCopyObject().(client.ObjectList) // lists are shared between calls
		var requests []reconcile.Request
		err := errors.Join(o.Client.List(ctx, all), meta.EachListItem(all, func(each runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(each.(client.Object))})
			return nil
		}))
		if err != nil {
			o.Log.ErrorContext(ctx, "listing what an event may be about", slog.Any("error", err))
		}
		return requests
	})
}
