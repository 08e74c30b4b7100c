package kubelet

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
)

// Options configure a Kubelet. Those without a stated default are required.
type Options struct {
	// Config reaches the API server, with the rights of a node and of a volume provisioner.
	Config *rest.Config
	// NodeName is the name of the Node that the kubelet registers.
	NodeName string
	// Root is the absolute path of the folder for pods, logs and claims. One kubelet at a time uses it.
	Root string
	// PodCIDR is the loopback IPv4 range of which each pod gets an address, such as 127.64.1.0/24.
	PodCIDR string
	// Listen is the loopback address and port of the logs endpoint. The host part is the node's address.
	Listen string
	// CertFile and KeyFile are the serving certificate of the logs endpoint. Without them it is self-signed.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities of client certificates for the logs endpoint. Without it nobody is asked for one.
	ClientCAFile string
	// Images maps each exact image reference that the node can run to the absolute path of the program for it.
	Images map[string]string
	// ServiceProxy makes the kubelet listen on the cluster IPs of Services, and resolve their names in arguments.
	ServiceProxy bool
	// NoClaims leaves volume claims to another kubelet. By default this one fulfils all claims of the cluster that name no
	// storage class, or StorageClass; one kubelet of a cluster may.
	NoClaims bool
	// StopTimeout bounds how long containers may take to end when Run ends; 5 s by default.
	StopTimeout time.Duration
	// RestartDelay is the wait before the second restart in a row, and doubles with each further one up to
	// MaxRestartDelay; 1 s and 1 min by default. The first restart is immediate.
	RestartDelay, MaxRestartDelay time.Duration
	// LogLimitBytes bounds the log of one container run on disk; 8 MiB by default.
	LogLimitBytes int64
	// Log receives what the kubelet has to say.
	Log *slog.Logger
	// Registry receives the kubelet's metrics, and is served beside the logs.
	Registry *prometheus.Registry
}

// complete fills in the defaults and says what is wrong.
func (o *Options) complete() error {
	setDefault(&o.StopTimeout, 5*time.Second)
	setDefault(&o.RestartDelay, time.Second)
	setDefault(&o.MaxRestartDelay, time.Minute)
	setDefault(&o.LogLimitBytes, 8<<20)
	return errors.Join(o.checkPlaces(), o.checkAddresses(), o.checkImages())
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (o *Options) checkPlaces() error {
	var errs []error
	if o.Config == nil {
		errs = append(errs, errors.New("no API server is configured"))
	}
	if o.Log == nil || o.Registry == nil {
		errs = append(errs, errors.New("a logger and a metrics registry are required"))
	}
	for _, problem := range validation.IsDNS1123Subdomain(o.NodeName) {
		errs = append(errs, fmt.Errorf("node name %q: %s", o.NodeName, problem))
	}
	if !filepath.IsAbs(o.Root) {
		errs = append(errs, fmt.Errorf("root folder %q is not an absolute path", o.Root))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("a certificate file and a key file go together"))
	}
	return errors.Join(errs...)
}

func (o *Options) checkAddresses() error {
	var errs []error
	if prefix, err := netip.ParsePrefix(o.PodCIDR); err != nil || !prefix.Addr().Is4() || !prefix.Addr().IsLoopback() || prefix.Bits() > 30 || prefix.Bits() < 9 {
		errs = append(errs, fmt.Errorf("pod range %q is not a loopback IPv4 range between /9 and /30", o.PodCIDR))
	}
	if host, _, err := net.SplitHostPort(o.Listen); err != nil || !isLoopback(host) {
		errs = append(errs, fmt.Errorf("listen address %q is not a loopback address with a port", o.Listen))
	}
	return errors.Join(errs...)
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (o *Options) checkImages() error {
	var errs []error
	for image, binary := range o.Images {
		info, err := os.Stat(binary)
		switch {
		case !filepath.IsAbs(binary):
			errs = append(errs, fmt.Errorf("program %q of image %s is not an absolute path", binary, image))
		case err != nil:
			errs = append(errs, fmt.Errorf("finding program of image %s: %w", image, err))
		case info.IsDir() || info.Mode()&0o111 == 0:
			errs = append(errs, fmt.Errorf("program %s of image %s is not executable", binary, image))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) images() podspec.Images { return o.Images }
