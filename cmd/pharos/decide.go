package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

func newDecideCommand() *cobra.Command {
	var from, format, now string
	var policies []string
	cmd := &cobra.Command{
		Use:   "decide",
		Short: "Say what the remediator decides of a snapshot, and why",
		Long: `Decide what the remediator would of a snapshot that it recorded, or that was written by hand, and say why. The same code decides. Nothing
is read but the files, and nothing is written. With --policy the policies of the files take the place of those in the snapshot.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSnapshot(from, policies, now)
			if err != nil {
				return err
			}
			return writeVerdict(cmd.OutOrStdout(), format, snapshot.VerdictOf(s.Decide(), s.Now))
		},
	}
	cmd.Flags().StringVar(&from, "snapshot", "", "the snapshot, a YAML or JSON file; - for standard input")
	cmd.Flags().StringArrayVar(&policies, "policy", nil, "a YAML file with one RemediationPolicy or several; may be given several times")
	cmd.Flags().StringVar(&now, "now", "", "decide as at this instant, such as 2026-01-31T12:00:00Z (default: that of the snapshot)")
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text, yaml or json")
	cobra.CheckErr(cmd.MarkFlagRequired("snapshot"))
	return cmd
}

func readSnapshot(path string, policies []string, now string) (snapshot.Snapshot, error) {
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return snapshot.Snapshot{}, fmt.Errorf("reading a snapshot: %w", err)
		}
		defer func() { _ = file.Close() }() // nothing was written
	}
	s, err := snapshot.Read(file)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if now != "" {
		if s.Now, err = instant("now", now); err != nil {
			return s, err
		}
	}
	if len(policies) == 0 {
		return s, nil
	}
	s.Policies, err = readPolicies(policies)
	return s, err
}

// instant is what a flag says.
func instant(flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("reading --%s: %w", flag, err)
	}
	return at, nil
}

// readPolicies reads policies and refuses what the API server would.
func readPolicies(paths []string) ([]v1alpha1.RemediationPolicy, error) {
	var all []v1alpha1.RemediationPolicy
	seen := map[string]string{}
	for _, path := range paths {
		raw, err := readFile("policies", path)
		if err != nil {
			return nil, err
		}
		policies, err := snapshot.ReadPolicies(raw.Content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range policies {
			if first, twice := seen[p.Name]; twice {
				return nil, fmt.Errorf("%s: the policy %q is in %s, too", path, p.Name, first)
			}
			seen[p.Name] = path
		}
		all = append(all, policies...)
	}
	return all, nil
}

func writeVerdict(to io.Writer, format string, v snapshot.Verdict) error {
	switch format {
	case "text":
		return v.Text(to)
	case "json":
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		raw, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = to.Write(raw)
		return err
	}
	return errors.New("reading --output: it is " + format + ", where text, yaml or json can be written")
}
