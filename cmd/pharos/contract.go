package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/dashboards"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

func newContractCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "contract", Short: "Work with the contract: what may cross a tier", Args: cobra.NoArgs}
	cmd.AddCommand(newContractCheckCommand())
	return cmd
}

// contractFiles are where to find what is checked. Unset means what is built in.
type contractFiles struct {
	contract, rules, dashboards string
	policies                    []string
}

func newContractCheckCommand() *cobra.Command {
	var from contractFiles
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that rules, dashboards and policies fit the contract, and name file and line of what does not",
		Long: `Check that every recording rule gives a declared series with exactly its labels, and that every rule, alert, panel and policy reads only
what is declared and there, by labels that are there. Without flags it checks what is built in.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := from.read()
			if err != nil {
				return err
			}
			err = lint.Check(in)
			if problems, ok := errors.AsType[rules.Problems](err); ok {
				fmt.Fprintln(cmd.OutOrStdout(), problems)
				return fmt.Errorf("checking against the contract: %d wrong, each with its place above", len(problems))
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rule files, %d dashboards and %d files of policies fit it\n",
				in.Contract.Name, len(slices.Concat(slices.Collect(maps.Values(in.Rules))...)), len(in.Dashboards), len(in.Policies))
			return nil
		},
	}
	cmd.Flags().StringVar(&from.contract, "contract", "", "the contract, a YAML file (default: the one that is built in)")
	cmd.Flags().StringVar(&from.rules, "rules", "", "folder of rules with a folder for each tier: edge, cascade, central (default: those that are built in)")
	cmd.Flags().StringVar(&from.dashboards, "dashboards", "", "folder of dashboards as JSON files (default: those that are built in)")
	cmd.Flags().StringArrayVar(&from.policies, "policies", nil, "a YAML file of policies; may be given several times")
	return cmd
}

func (c contractFiles) read() (lint.Input, error) {
	var in lint.Input
	var err error
	if in.Contract, err = c.readContract(); err != nil {
		return in, err
	}
	if in.Rules, err = c.readRules(); err != nil {
		return in, err
	}
	if in.Dashboards, err = c.readDashboards(); err != nil {
		return in, err
	}
	for _, path := range c.policies {
		f, err := readFile("policies", path)
		if err != nil {
			return in, err
		}
		in.Policies = append(in.Policies, f)
	}
	return in, nil
}

func readFile(what, path string) (lint.File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return lint.File{}, fmt.Errorf("reading the %s: %w", what, err)
	}
	return lint.File{Name: path, Content: raw}, nil
}

func (c contractFiles) readContract() (lint.File, error) {
	if c.contract != "" {
		return readFile("contract", c.contract)
	}
	raw, err := rules.ContractSource()
	return lint.File{Name: "rules/" + rules.ContractFile, Content: raw}, err
}

func (c contractFiles) readRules() (map[rules.Tier][]lint.File, error) {
	out := map[rules.Tier][]lint.File{}
	for _, tier := range rules.Tiers() {
		var err error
		if c.rules == "" {
			out[tier], err = builtInRules(tier)
		} else {
			out[tier], err = readFolder("rules", filepath.Join(c.rules, string(tier)), rules.FileSuffix)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // the folder may have rules of one tier only
		}
		if err != nil {
			return nil, err
		}
	}
	if len(slices.Concat(slices.Collect(maps.Values(out))...)) == 0 {
		return nil, fmt.Errorf("reading the rules in %q: none of its folders edge, cascade and central has a file whose name ends in %s", c.rules, rules.FileSuffix)
	}
	return out, nil
}

func builtInRules(tier rules.Tier) ([]lint.File, error) {
	var out []lint.File
	for _, subject := range rules.Subjects(tier) {
		raw, err := rules.Source(tier, subject)
		if err != nil {
			return nil, err
		}
		out = append(out, lint.File{Name: "rules/" + rules.SourcePath(tier, subject), Content: raw})
	}
	return out, nil
}

func (c contractFiles) readDashboards() ([]lint.File, error) {
	if c.dashboards != "" {
		return readFolder("dashboards", c.dashboards, ".json")
	}
	all, err := dashboards.JSON()
	if err != nil {
		return nil, err
	}
	var out []lint.File
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, lint.File{Name: "dashboards/json/" + name, Content: all[name]})
	}
	return out, nil
}

// readFolder reads the files of a folder, all of which must have the suffix: one
// that is passed over is one that nobody checks.
func readFolder(what, dir, suffix string) ([]lint.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	var out []lint.File
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), suffix) || e.IsDir() {
			return nil, fmt.Errorf("reading the %s: %s is no file whose name ends in %s, so it would not be checked; rename it or move it elsewhere", what, path, suffix)
		}
		f, err := readFile(what, path)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading the %s: the folder %s is empty", what, dir)
	}
	return out, nil
}
