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

	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

func newDecideCommand() *cobra.Command {
	var from, format, now string
	var policies []string
	cmd := &cobra.Command{
		Use:   "decide",
		Short: "Say what the remediator decides of a snapshot, and why",
		Long: `Decide what the remediator would of a snapshot that it recorded, or that was written by hand, and say why. The same code decides. Nothing
is read but the files, and nothing is written. With --policy the policies of the files take the place of those in the snapshot, and so do
budgets, if the files have any.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := answerIn(format)
			if err != nil {
				return err
			}
			s, err := readSnapshot(from, policies, now)
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), snapshot.VerdictOf(s.Decide(), s.Now))
		},
	}
	cmd.Flags().StringVar(&from, "snapshot", "", "the snapshot, a YAML or JSON file; - for standard input")
	cmd.Flags().StringArrayVar(&policies, "policy", nil, policyFlag)
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
	if s.Now, err = instantOr("now", now, s.Now); err != nil {
		return s, err
	}
	terms, err := readTerms(policies)
	return s.Under(terms), err
}

// instantOr is what a flag says, if it says anything.
func instantOr(flag, text string, unset time.Time) (time.Time, error) {
	if text == "" {
		return unset, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("reading --%s: %w", flag, err)
	}
	return at, nil
}

// policyFlag says what --policy is.
const policyFlag = "a YAML file with RemediationPolicies, FleetDisruptionBudgets or both; may be given several times"

// readTerms reads policies and budgets, and refuses what the API server would.
func readTerms(paths []string) (snapshot.Terms, error) {
	var all snapshot.Terms
	policies, budgets := map[string]string{}, map[string]string{}
	for _, path := range paths {
		raw, err := readFile("policies", path)
		if err != nil {
			return all, err
		}
		terms, err := snapshot.ReadTerms(raw.Content)
		if err != nil {
			return all, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range terms.Policies {
			err = errors.Join(err, onlyIn(path, "policy", p.Name, policies))
		}
		for _, b := range terms.Budgets {
			err = errors.Join(err, onlyIn(path, "budget", b.Name, budgets))
		}
		if err != nil {
			return all, err
		}
		all.Policies, all.Budgets = append(all.Policies, terms.Policies...), append(all.Budgets, terms.Budgets...)
	}
	return all, nil
}

// onlyIn remembers in which file a name is, and refuses it in another.
func onlyIn(path, kind, name string, seen map[string]string) error {
	if first, twice := seen[name]; twice {
		return fmt.Errorf("%s: the %s %q is in %s, too", path, kind, name, first)
	}
	seen[name] = path
	return nil
}

// answer is what programs and people can read.
type answer interface{ Text(to io.Writer) error }

// answerIn is how an answer is written in a format, which is known to be one before
// anybody waits for the answer.
func answerIn(format string) (func(to io.Writer, a answer) error, error) {
	switch format {
	case "text":
		return func(to io.Writer, a answer) error { return a.Text(to) }, nil
	case "json":
		return func(to io.Writer, a answer) error {
			e := json.NewEncoder(to)
			e.SetIndent("", "  ")
			return e.Encode(a)
		}, nil
	case "yaml":
		return func(to io.Writer, a answer) error {
			raw, err := yaml.Marshal(a)
			if err != nil {
				return err
			}
			_, err = to.Write(raw)
			return err
		}, nil
	}
	return nil, errors.New("reading --output: it is " + format + ", where text, yaml or json can be written")
}
