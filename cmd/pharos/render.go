package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/tree"
)

// Exit codes, as those of diff.
const (
	exitDiffers = 1
	exitTrouble = 2
)

// exit is an error with an exit code of its own.
type exit struct {
	error
	code int
}

// Unwrap gives the cause.
func (e exit) Unwrap() error { return e.error }

// errDiffers says that there was something to show, which is no trouble.
var errDiffers = errors.New("what would be rendered differs from what is there")

type renderFlags struct {
	federation, cells, out, diff, plan, namespace, endMoves string
	contract, rules                                         string
	noRules                                                 bool
}

func newRenderCommand() *cobra.Command {
	var flags renderFlags
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Render what the operator would run in the hub and in every cell as files, to deploy from a repository",
		Long: `Render what the operator would run in the hub and in every cell as files.

Descriptions are read from files, and refused as an API server would refuse
them. --out writes the tree, and nothing of it before all of it has been
rendered: hub/ and cells/NAME/, each with manifests/ (Kubernetes objects, a file
for each part) and files/ (what is in their ConfigMaps). --diff shows what would
change in a folder, sums that up in a line on standard error, and ends with 0 when
nothing would and with 1 when something would. Trouble of any kind, and what --out
would refuse, ends with 2.

The tree has plan.yaml, which the next render goes on from: cells stay on their
cascades, and one that has to move is read by both until a person vouches that
both have it, with --end-moves=ID. Each render warns of what moves, and prints the
ID: the same command, run twice, takes one step.`,
		Args: func(cmd *cobra.Command, args []string) error { return trouble(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error { return trouble(flags.run(cmd.Context(), cmd)) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return trouble(err) })
	f := cmd.Flags()
	f.StringVar(&flags.federation, "federation", "", "file with the Federation (required)")
	f.StringVar(&flags.cells, "cells", "", "file with Cells, or folder whose .yaml, .yml and .json files, kustomization.yaml aside, have them; default the file of the Federation")
	f.StringVar(&flags.out, "out", "", "folder to write")
	f.StringVar(&flags.diff, "diff", "", "folder to compare with, instead of writing")
	f.StringVar(&flags.plan, "plan", "", "file with the plan of the last render; default plan.yaml in the folder of --out or --diff")
	f.StringVar(&flags.endMoves, "end-moves", "", "ID of the step to take, as the last render printed it: that is deployed, and both centrals hear of each cell from where it goes")
	f.Lookup("end-moves").NoOptDefVal = noID
	f.StringVar(&flags.rules, "rules", "", "folder with rules of your own beside those of Pharos, with a folder for each tier: edge, cascade, central")
	f.StringVar(&flags.contract, "contract", "", "the contract that all rules are checked against and that says what crosses tiers, a YAML file: the built-in one with series of your own (default: the built-in one)")
	f.BoolVar(&flags.noRules, "no-rules", false, "rules and a contract of your own that the last render had are to go; without it a render that lacks them is refused")
	f.StringVar(&flags.namespace, "namespace", deploy.Namespace, "namespace of the parts, in the hub and in the cells")
	return cmd
}

// noID is what --end-moves has where nobody says which step is meant.
const noID = "ID"

// trouble gives an error its exit code, unless it has one.
func trouble(err error) error {
	if err == nil || errors.Is(err, errDiffers) {
		return err
	}
	return exit{err, exitTrouble}
}

// gcPercent lets garbage grow to four times what is in use, which is some ten
// megabytes at a time: a third less work for a program that ends in seconds.
const gcPercent = 400

func (f renderFlags) run(ctx context.Context, cmd *cobra.Command) error {
	debug.SetGCPercent(gcPercent)
	if err := f.check(); err != nil {
		return err
	}
	fleet, err := tree.Read(f.federation, f.cells)
	if err != nil {
		return err
	}
	before, err := f.before(fleet)
	if err != nil {
		return err
	}
	own, err := f.own(fleet, before)
	if err != nil {
		return err
	}
	t, err := tree.Continue(fleet, tree.Options{Namespace: f.namespace, Before: before, Vouched: f.endMoves, Own: own})
	if err != nil {
		return err
	}
	for _, w := range t.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
	if f.diff != "" {
		summary, err := t.Diff(ctx, f.diff, cmd.OutOrStdout())
		warnOf(cmd, f.diff, summary)
		if err != nil {
			return err
		}
		// Beside the differences, which somebody may want to keep or to apply.
		fmt.Fprintln(cmd.ErrOrStderr(), sumUp(f.diff, t, summary, "would be changed", "would be removed"))
		if summary.Changed+summary.Removed > 0 {
			return exit{errDiffers, exitDiffers}
		}
		return nil
	}
	summary, err := t.Write(ctx, f.out)
	if err != nil {
		return err
	}
	warnOf(cmd, f.out, summary)
	fmt.Fprintln(cmd.OutOrStdout(), sumUp(f.out, t, summary, "changed", "removed"))
	return nil
}

// sumUp tells in one line what there is to render and what that changed in a folder,
// or would change.
func sumUp(dir string, t *tree.Tree, s tree.Summary, changed, removed string) string {
	cascades, cells := t.Servers()
	return fmt.Sprintf("%s: %d files of the hub, with %d cascades, and of %d cells; %d %s, %d %s",
		dir, s.Files, cascades, cells, s.Changed, changed, s.Removed, removed)
}

func (f renderFlags) check() error {
	if f.federation == "" || (f.out == "") == (f.diff == "") {
		return errors.New("render needs --federation, and one of --out and --diff")
	}
	if f.noRules && f.rules+f.contract != "" {
		return errors.New("--no-rules says that no rules of your own are wanted, and --rules or --contract gives some; leave out the one or the other")
	}
	if f.endMoves == noID {
		return errors.New("--end-moves needs the ID of the step that you vouch for, as --end-moves=ID: render without it, which warns of what moves and prints the ID")
	}
	if wrong := validation.IsDNS1123Label(f.namespace); len(wrong) > 0 {
		return fmt.Errorf("--namespace %q can be that of no cluster: %s", f.namespace, strings.Join(wrong, "; "))
	}
	return nil
}

// warnOf tells of what is in the folder and is not the render's.
func warnOf(cmd *cobra.Command, dir string, s tree.Summary) {
	for _, name := range s.Strays {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is not rendered: kubectl apply -f %s would apply it with the rest\n", filepath.Join(dir, name), filepath.Join(dir, filepath.Dir(name)))
	}
}

// own are the rules and the contract that were given, unless some are missing that the
// last render had.
func (f renderFlags) own(fleet tree.Fleet, before tree.Plan) (own ownrules.Set, err error) {
	if f.noRules {
		return own, nil
	}
	if f.contract != "" {
		if own.Contract, err = readFile("contract", f.contract); err != nil {
			return own, err
		}
	}
	if f.rules != "" {
		if own.Rules, err = (contractFiles{rules: f.rules}).readRules(); err != nil {
			return own, err
		}
	}
	return own, before.CheckOwn(own, fleet)
}

// before is the plan that the render of a fleet goes on from.
func (f renderFlags) before(fleet tree.Fleet) (p tree.Plan, err error) {
	if f.plan != "" {
		p, err = tree.ReadPlan(f.plan)
	} else {
		p, err = tree.PlanOf(cmp.Or(f.out, f.diff))
	}
	if err != nil {
		return p, err
	}
	return p, p.Check(fleet)
}
