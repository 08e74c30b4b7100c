package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
	"github.com/pharos-fleet/pharos/internal/local/demo"
)

func newDemoCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	var binDir string
	var once bool
	o := demo.RunOptions{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start the fleet on this machine, break a node, and show the loop closing",
		Long: `Start the fleet on this machine, break one worker node, and print each step of
the loop with the seconds since the fault. Then the fleet stays up to explore,
until Ctrl-C, also when the loop did not close. With --once it ends at once:
status 0 when the loop closed; otherwise not, the step that did not come is
named, and the logs are kept. With -o json the timeline is printed when the loop
has closed or its time is over, and all other text goes to standard error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Timeout <= 0 {
				return fmt.Errorf("reading --timeout %s: give more than zero", o.Timeout)
			}
			f, err := fleet.open()
			if err != nil {
				return err
			}
			o.Fleet, o.Text = f, cmd.OutOrStdout()
			if output.json() {
				o.Text = cmd.ErrOrStderr()
			}
			o.Up = local.Options{
				Binaries: binaries.Options{BinDir: binDir, Progress: cmd.ErrOrStderr()},
				Progress: cmd.ErrOrStderr(),
			}
			return runDemo(cmd.Context(), o, once, output.json(), cmd.OutOrStdout())
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&once, "once", false, "end when the loop has closed, or did not")
	flags.StringVar(&o.Node, "node", "shop-node-07", "worker node to break")
	flags.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long the loop may take, from the fault on")
	flags.StringVar(&binDir, "bin-dir", "", "folder of ready server binaries to use instead of building them")
	return cmd
}

// runDemo leaves no fleet behind, whichever way it ends.
func runDemo(ctx context.Context, o demo.RunOptions, once, asJSON bool, out io.Writer) error {
	r, err := demo.Run(ctx, o)
	if r == nil {
		return err
	}
	if !once && ctx.Err() == nil {
		if asJSON {
			err = errors.Join(err, r.WriteJSON(out))
		}
		explore(ctx, o, r, err)
		return errors.Join(err, demo.End(ctx, o.Fleet, r, false))
	}
	// A script that failed will be asked why.
	keep := err != nil && ctx.Err() == nil
	if keep {
		err = fmt.Errorf("%w; logs are kept in %s, and `%s` removes them", err, o.Fleet.Layout.Dir, o.Fleet.DownCommand())
	}
	err = errors.Join(err, demo.End(ctx, o.Fleet, r, keep))
	if asJSON {
		return errors.Join(err, r.WriteJSON(out))
	}
	if ctx.Err() == nil { // figures of a loop that somebody interrupted say nothing
		r.WriteFigures(o.Text)
	}
	return err
}

// explore tells where everything is and waits for Ctrl-C.
func explore(ctx context.Context, o demo.RunOptions, r *demo.Result, err error) {
	r.WriteFigures(o.Text)
	_, _ = fmt.Fprintln(o.Text)
	// Nothing is lost when the terminal is gone: the next line waits all the same.
	_ = printAddresses(o.Text, r.Report)
	if err != nil {
		_, _ = fmt.Fprintf(o.Text, "\n%v\n", err)
	}
	_, _ = fmt.Fprintf(o.Text, "\nThe fleet stays up until Ctrl-C. In another terminal, break more: pharos fault list --instance %d\n", o.Fleet.Layout.Instance)
	<-ctx.Done()
	_, _ = fmt.Fprintln(o.Text, "\nending the fleet")
}
