package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local"
)

func newStatusCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the local fleet is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := fleet.open()
			if err != nil {
				return err
			}
			return showReport(cmd, f, output, func(w io.Writer, r local.Report) error { return printStatus(w, f, r) })
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	return cmd
}

// showReport writes how the fleet is, for a person by show or for a script.
func showReport(cmd *cobra.Command, f *local.Fleet, output outputFlag, show func(io.Writer, local.Report) error) error {
	report, err := f.Status(cmd.Context())
	if err != nil {
		return err
	}
	if output.json() {
		return writeJSON(cmd.OutOrStdout(), report)
	}
	return show(cmd.OutOrStdout(), report)
}

func printStatus(w io.Writer, f *local.Fleet, r local.Report) error {
	switch r.State {
	case local.StateNone:
		fmt.Fprintf(w, "no fleet in %s: start one with %s\n", r.StateDir, f.UpCommand())
		return nil
	case local.StateKept:
		fmt.Fprintf(w, "the fleet is down and its data are kept in %s: start it with %s\n", r.StateDir, f.UpCommand())
		return nil
	case local.StateKilled:
		fmt.Fprintf(w, "the fleet in %s ended without being stopped: %s starts it again, %s cleans up\n", r.StateDir, f.UpCommand(), f.DownCommand())
		return nil
	}
	if r.Supervisor == 0 {
		fmt.Fprintf(w, "%s: another pharos is at work in %s\n", r.State, r.StateDir)
		return nil
	}
	fmt.Fprintf(w, "%s since %s, supervisor process %d, %d processes, %.1f GiB resident\n\n",
		r.State, r.Since.Format(time.DateTime), r.Supervisor, r.Processes, float64(r.ResidentBytes)/(1<<30))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPROCESS\tRESTARTS\tSINCE\tLAST END")
	for _, c := range r.Components {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\n", c.Name, c.State, c.PID, c.Restarts, c.Since.Format(time.TimeOnly), c.Message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return printAddresses(w, r)
}

// printAddresses says where to look.
func printAddresses(w io.Writer, r local.Report) error {
	if r.Tiers != "" {
		fmt.Fprintf(w, "\nTiers are not ready: %s\n", r.Tiers)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Parts) > 0 {
		fmt.Fprintln(table, "\nPART\tCLUSTER\tREADY\tADDRESS")
	}
	for _, p := range r.Parts {
		var urls []string
		for _, a := range p.Addresses {
			urls = append(urls, "http://"+a)
		}
		fmt.Fprintf(table, "%s\t%s\t%d/%d\t%s\n", p.Name, p.Cluster, p.Ready, p.Desired, strings.Join(urls, " "))
	}
	fmt.Fprintf(table, "dingtalk\t-\t-\t%s\n", r.Messages)
	fmt.Fprintln(table, "\nCLUSTER\tROLE\tAPI SERVER\tKUBECONFIG")
	for _, c := range r.Clusters {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Name, c.Role, c.Server, c.Kubeconfig)
	}
	return table.Flush()
}
