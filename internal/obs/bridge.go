package obs

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// BridgeKubernetes has client-go and controller-runtime, which log through klog
// and logr, write to the logger. It sets what the whole process has, so that
// main calls it, once, before it begins anything.
func BridgeKubernetes(log *slog.Logger) {
	klog.SetSlogLogger(log)
	ctrllog.SetLogger(Logr(log))
}

// Logr returns the logger as the libraries of Kubernetes want to be given one.
func Logr(log *slog.Logger) logr.Logger { return logr.FromSlogHandler(log.Handler()) }
