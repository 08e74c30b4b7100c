package main

import (
	"errors"
	"fmt"
	"io"
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
			checked, err := lint.Check(in)
			if problems, ok := errors.AsType[rules.Problems](err); ok {
				fmt.Fprintln(cmd.OutOrStdout(), problems)
				return fmt.Errorf("checking against the contract: %d wrong, each with its place above", len(problems))
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rule files, %d dashboards and %d files of policies fit it, with %d, %d and %d queries\n",
				in.Contract.Name, countFiles(in.Rules)+countFiles(in.Own), len(in.Dashboards), len(in.Policies),
				checked.Rules, checked.Dashboards, checked.Policies)
			return nil
		},
	}
	cmd.Flags().StringVar(&from.contract, "contract", "", "the contract, a YAML file (default: the one that is built in)")
	cmd.Flags().StringVar(&from.rules, "rules", "", "folder of rules with a folder for each tier: edge, cascade, central; what has the name of a file that is built in is checked instead of it, the rest beside")
	cmd.Flags().StringVar(&from.dashboards, "dashboards", "", "folder of dashboards as JSON files (default: those that are built in)")
	cmd.Flags().StringArrayVar(&from.policies, "policies", nil, "a YAML file of policies; may be given several times")
	return cmd
}

func countFiles(of map[rules.Tier][]lint.File) int {
	return len(slices.Concat(slices.Collect(maps.Values(of))...))
}

// read gives what is to be checked.
func (c contractFiles) read() (in lint.Input, err error) {
	if in.Contract, err = c.readContract(); err != nil {
		return in, err
	}
	if in.Rules, in.Own, err = c.readRulesAndOwn(); err != nil {
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

// readRulesAndOwn gives the rules that are built in, but for files that are given
// in their place, and those given beside them.
func (c contractFiles) readRulesAndOwn() (all, own map[rules.Tier][]lint.File, err error) {
	if all, err = (contractFiles{}).readRules(); err != nil || c.rules == "" {
		return all, nil, err
	}
	given, err := c.readRules()
	if err != nil {
		return nil, nil, err
	}
	own = map[rules.Tier][]lint.File{}
	for _, tier := range rules.Tiers() {
		for _, f := range given[tier] {
			i := slices.IndexFunc(all[tier], func(b lint.File) bool { return filepath.Base(b.Name) == filepath.Base(f.Name) })
			if i < 0 {
				own[tier] = append(own[tier], f)
				continue
			}
			all[tier][i] = f
		}
	}
	return all, own, nil
}

func readFile(what, path string) (lint.File, error) {
	// Whoever opens a pipe waits for what may never come.
	if info, err := os.Stat(path); err != nil {
		return lint.File{}, fmt.Errorf("reading the %s: %w", what, err)
	} else if !info.Mode().IsRegular() {
		return lint.File{}, fmt.Errorf("reading the %s: %s is no regular file", what, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return lint.File{}, fmt.Errorf("reading the %s: %w", what, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, lint.MaxFile+1))
	if err != nil {
		return lint.File{}, fmt.Errorf("reading the %s: %w", what, err)
	}
	return lint.File{Name: path, Content: raw}, nil
}

func (c contractFiles) readContract() (lint.File, error) {
	if c.contract != "" {
		return readFile("contract", c.contract)
	}
	in, err := lint.BuiltIn()
	return in.Contract, err
}

func (c contractFiles) readRules() (map[rules.Tier][]lint.File, error) {
	if c.rules == "" {
		in, err := lint.BuiltIn()
		return in.Rules, err
	}
	out := map[rules.Tier][]lint.File{}
	if err := onlyTiers(c.rules); err != nil {
		return nil, err
	}
	for _, tier := range rules.Tiers() {
		dir := filepath.Join(c.rules, string(tier))
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue // the folder may have rules of one tier only
		}
		var err error
		if out[tier], err = readFolder("rules", dir, rules.FileSuffix); err != nil {
			return nil, err
		}
	}
	if len(slices.Concat(slices.Collect(maps.Values(out))...)) == 0 {
		return nil, fmt.Errorf("reading the rules in %q: none of its folders edge, cascade and central has a file whose name ends in %s", c.rules, rules.FileSuffix)
	}
	return out, nil
}

// onlyTiers refuses rule files that are in no folder of a tier, and folders that
// are a tier's but for the case: nobody would check what is in them.
func onlyTiers(dir string) error {
	var errs []error
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		tier, _, _ := strings.Cut(path, "/")
		if slices.Contains(rules.Tiers(), rules.Tier(tier)) {
			return nil
		}
		const advice = "would not be checked; the folders of the tiers are edge, cascade and central"
		lower := strings.ToLower(path)
		switch {
		case slices.Contains(rules.Tiers(), rules.Tier(lower)):
			errs = append(errs, fmt.Errorf("reading the rules: what is in %s %s", filepath.Join(dir, path), advice))
			return skip(d)
		case strings.HasSuffix(lower, ".rules.yaml") || strings.HasSuffix(lower, ".rules.yml"):
			errs = append(errs, fmt.Errorf("reading the rules: %s %s", filepath.Join(dir, path), advice))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the rules in %s: %w", dir, err)
	}
	return errors.Join(errs...)
}

// skip goes on beside a folder, and not in it.
func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
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
