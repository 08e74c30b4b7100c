// Command pharos is every program of Pharos: one subcommand for each role.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/version"
)

func main() {
	ctx, stop := untilSignalled()
	defer stop()
	if code := exitCode(run(ctx, newRootCommand(), os.Stdout), os.Stderr); code != 0 {
		stop()
		os.Exit(code)
	}
}

// exitCode tells of a command's error what a person should know, and what the
// program ends with.
func exitCode(err error, told io.Writer) int {
	if err == nil {
		return 0
	}
	if !errors.Is(err, errDiffers) {
		fmt.Fprintln(told, "pharos:", err)
	}
	if own := (exit{}); errors.As(err, &own) {
		return own.code
	}
	return 1
}

// run runs a command whose answer goes to out. An answer that could not be
// written whole is a failure, wherever in the command that was.
func run(ctx context.Context, root *cobra.Command, out io.Writer) error {
	answer := &checked{to: out}
	root.SetOut(answer)
	err := root.ExecuteContext(ctx)
	if lost := answer.lost(); lost != nil && !errors.Is(err, lost) {
		err = errors.Join(err, fmt.Errorf("writing the answer: %w", lost))
	}
	return err
}

// checked keeps the first error of a writer, and writes nothing after it.
type checked struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

func (c *checked) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	n, c.err = c.to.Write(p)
	return n, c.err
}

func (c *checked) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "pharos",
		Short:         "Watch and repair a fleet of Kubernetes clusters",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newDemoCommand(),
		newUpCommand(),
		newStatusCommand(),
		newDownCommand(),
		newFaultCommand(),
		newLocalCommand(),
		newRenderCommand(),
		newRemediatorCommand(),
		newOperatorCommand(),
		newMachineOperatorCommand(),
		newEdgeAgentCommand(),
		newNotifyCommand(),
		newDecideCommand(),
		newWhyCommand(),
		newReplayCommand(),
		newRemediationCommand(),
		newContractCommand(),
		newRulesCommand(),
	)
	return root
}
