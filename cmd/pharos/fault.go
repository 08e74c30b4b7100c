package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/fault"
)

func newFaultCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "fault", Short: "Break parts of the local fleet, and mend them"}
	cmd.AddCommand(newFaultListCommand(), newFaultInjectCommand(), newFaultClearCommand())
	return cmd
}

func (f *fleetFlags) injector() (*fault.Injector, error) {
	fleet, err := f.open()
	if err != nil {
		return nil, err
	}
	return injectorOf(fleet)
}

func injectorOf(fleet *local.Fleet) (*fault.Injector, error) {
	if err := fleet.Running(); err != nil {
		return nil, err
	}
	configs, err := fleet.Configs()
	if err != nil {
		return nil, err
	}
	return fault.New(configs)
}

func newFaultListCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the faults there are, and those injected now",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			injector, err := fleet.injector()
			if err != nil {
				return err
			}
			now, unknown := injector.List(cmd.Context())
			if output.json() {
				return errors.Join(writeJSON(cmd.OutOrStdout(), map[string]any{"kinds": fault.Kinds(), "injected": now}), unknown)
			}
			return errors.Join(printFaults(cmd.OutOrStdout(), now, unknown == nil), unknown)
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	return cmd
}

// printFaults tells what can be broken and what is. Unless it is the whole, it
// does not say that nothing is.
func printFaults(w io.Writer, now []fault.Fault, whole bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tARGUMENTS\tWHAT IT DOES")
	for _, k := range fault.Kinds() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", k.Kind, k.Arguments, k.Text)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch {
	case len(now) == 0 && whole:
		fmt.Fprintln(w, "\nNothing is broken now.")
		return nil
	case len(now) == 0:
		fmt.Fprintln(w, "\nNothing is broken in the clusters that answered.")
		return nil
	}
	fmt.Fprintln(w, "\nBroken now:")
	for _, f := range now {
		fmt.Fprintf(w, "  %s\n", f)
	}
	return nil
}

func newFaultInjectCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	var f fault.Fault
	cmd := &cobra.Command{
		Use:   "inject KIND",
		Short: "Break something; pharos fault list shows what there is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			injector, err := fleet.injector()
			if err != nil {
				return err
			}
			f.Kind = fault.Kind(args[0])
			injected, err := injector.Inject(cmd.Context(), f)
			if err != nil {
				return err
			}
			if output.json() {
				return writeJSON(cmd.OutOrStdout(), injected)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "injected %s\n", injected)
			return nil
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.Node, "node", "", "worker node, for node-stop and node-flap")
	flags.StringVar(&f.Cluster, "cluster", "", "business cluster, for rack-stop")
	flags.StringVar(&f.Rack, "rack", "", "rack, for rack-stop")
	flags.StringVar(&f.Cell, "cell", "", "cell, for edge-down")
	flags.StringVar(&f.Replica, "replica", "", "a or b, for central-down")
	return cmd
}

func newFaultClearCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Mend everything that was broken",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			injector, err := fleet.injector()
			if err != nil {
				return err
			}
			cleared, failed := injector.Clear(cmd.Context())
			if output.json() {
				return errors.Join(writeJSON(cmd.OutOrStdout(), cleared), failed)
			}
			for _, f := range cleared {
				fmt.Fprintf(cmd.OutOrStdout(), "cleared %s\n", f)
			}
			if len(cleared) == 0 && failed == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing was broken")
			}
			return failed
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	return cmd
}

// outputFlag chooses between text for a person and JSON for a script.
type outputFlag struct{ format string }

func (o *outputFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "text or json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.format != "text" && o.format != "json" {
			return fmt.Errorf("reading --output %q: use text or json", o.format)
		}
		return nil
	}
}

func (o *outputFlag) json() bool { return o.format == "json" }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
