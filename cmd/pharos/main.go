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
	if err := run(ctx, newRootCommand(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pharos:", err)
		stop()
		os.Exit(1)
	}
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
		newRemediatorCommand(),
		newOperatorCommand(),
		newMachineOperatorCommand(),
		newEdgeAgentCommand(),
		newNotifyCommand(),
		newContractCommand(),
		newRulesCommand(),
	)
	return root
}
