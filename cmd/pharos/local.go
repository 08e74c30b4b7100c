package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/dingtalk"
	"github.com/pharos-fleet/pharos/internal/local/fault"
	"github.com/pharos-fleet/pharos/internal/local/kubelet"
	"github.com/pharos-fleet/pharos/internal/local/reboot"
	"github.com/pharos-fleet/pharos/internal/obs"
)

// newLocalCommand holds the parts of the local fleet. People type none of them
// but binaries; the fleet does.
func newLocalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "local", Short: "Run the parts of the fleet on one machine"}
	cmd.AddCommand(
		newBinariesCommand(),
		hidden(newSuperviseCommand()),
		hidden(newKubeletCommand()),
		hidden(newDingTalkCommand()),
		hidden(newFaultsCommand()),
		hidden(newRebootCommand()),
	)
	return cmd
}

func hidden(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

// fleetFlags are how a command finds its fleet.
type fleetFlags struct {
	instance int
	stateDir string
}

func (f *fleetFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.instance, "instance", 0, "number of the local fleet, 0 to 9; fleets of different numbers share nothing")
	cmd.Flags().StringVar(&f.stateDir, "state-dir", "", "folder of the fleet's state (default $XDG_STATE_HOME/pharos/fleet-N)")
}

// open is for the commands that people type. What the libraries log is not for
// them: all that they need to know is in the command's own words.
func (f *fleetFlags) open() (*local.Fleet, error) {
	obs.BridgeKubernetes(slog.New(slog.DiscardHandler))
	return f.find()
}

// find is for the parts of the fleet, which log.
func (f *fleetFlags) find() (*local.Fleet, error) { return local.Open(f.instance, f.stateDir) }

func newSuperviseCommand() *cobra.Command {
	var fleet fleetFlags
	cmd := &cobra.Command{
		Use:   "supervise",
		Short: "Run the processes of a local fleet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := componentLog()
			f, err := fleet.find()
			if err != nil {
				return err
			}
			return local.Supervise(cmd.Context(), f.Layout, log)
		},
	}
	fleet.register(cmd)
	return cmd
}

func newKubeletCommand() *cobra.Command {
	opts := kubelet.Options{StopTimeout: 3 * time.Second, ServiceProxy: true}
	var kubeconfig string
	var images []string
	cmd := &cobra.Command{
		Use:   "kubelet",
		Short: "Run pods as processes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			opts.Log, opts.Registry = componentLog(), obs.NewRegistry()
			if opts.Config, err = kube.Config(kubeconfig); err != nil {
				return err
			}
			if opts.Images, err = parseImages(images); err != nil {
				return err
			}
			k, err := kubelet.New(opts)
			if err != nil {
				return err
			}
			return k.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the node; default $KUBECONFIG")
	flags.StringVar(&opts.NodeName, "node-name", "", "name of the node")
	flags.StringVar(&opts.Root, "root", "", "folder of the pods")
	flags.StringVar(&opts.PodCIDR, "pod-cidr", "", "loopback addresses of the pods")
	flags.StringVar(&opts.Listen, "listen", "", "host:port to serve logs on")
	flags.StringVar(&opts.CertFile, "tls-cert-file", "", "certificate to serve logs with")
	flags.StringVar(&opts.KeyFile, "tls-key-file", "", "key of that certificate")
	flags.StringVar(&opts.ClientCAFile, "client-ca-file", "", "authority of those who may read logs")
	flags.StringArrayVar(&images, "image", nil, "an image as reference=path of its program; repeatable")
	return cmd
}

// parseImages reads reference=path pairs.
func parseImages(pairs []string) (map[string]string, error) {
	images := map[string]string{}
	for _, pair := range pairs {
		image, path, ok := strings.Cut(pair, "=")
		if !ok || image == "" || path == "" {
			return nil, fmt.Errorf("reading --image %q: use reference=path", pair)
		}
		images[image] = path
	}
	return images, nil
}

func newDingTalkCommand() *cobra.Command {
	var opts dingtalk.Options
	var tokenFile, secretFile string
	cmd := &cobra.Command{
		Use:   "dingtalk",
		Short: "Behave like a DingTalk robot",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			opts.Log = componentLog()
			if opts.AccessToken, err = readSecretFile(tokenFile); err != nil {
				return err
			}
			if opts.Secret, err = readSecretFile(secretFile); err != nil {
				return err
			}
			sink, err := dingtalk.New(opts)
			if err != nil {
				return err
			}
			return sink.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", "", "host:port to serve on")
	flags.StringVar(&opts.Dir, "dir", "", "folder of the accepted messages")
	flags.StringVar(&tokenFile, "access-token-file", "", "file that holds the access token")
	flags.StringVar(&secretFile, "secret-file", "", "file that holds the signing key")
	return cmd
}

func readSecretFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func newFaultsCommand() *cobra.Command {
	var fleet fleetFlags
	var listen string
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Play the injected faults that need a hand",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := componentLog()
			f, err := fleet.find()
			if err != nil {
				return err
			}
			injector, err := injectorOf(f)
			if err != nil {
				return err
			}
			server, err := obs.NewServer(obs.ServerOptions{Address: listen, Registry: obs.NewRegistry(), Log: log})
			if err != nil {
				return err
			}
			return runBoth(cmd.Context(), server.Run, fault.NewPlayer(injector, log).Run)
		},
	}
	fleet.register(cmd)
	cmd.Flags().StringVar(&listen, "listen", "", "host:port to serve health and metrics on")
	return cmd
}

// runBoth runs two parts until ctx is done or one of them fails.
func runBoth(ctx context.Context, a, b func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a(ctx) })
	group.Go(func() error { return b(ctx) })
	return group.Wait()
}

func newRebootCommand() *cobra.Command {
	opts := reboot.Options{Getenv: os.Getenv}
	cmd := &cobra.Command{
		Use:   "reboot",
		Short: "Reset the machine that a repair Job is about",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Log = componentLog()
			return reboot.Run(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.KubeconfigDir, "kubeconfig-dir", "", "folder of a kubeconfig for each business cluster")
	return cmd
}
