package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignalled is done when the program is told to end: by Ctrl-C, by SIGTERM,
// or because its terminal was closed. A second Ctrl-C or SIGTERM ends it the hard
// way; a second SIGHUP does not, because a shell passes on the one that the
// kernel sends, too. Nor does writing to a terminal or pipe that is gone, which
// would leave half of a fleet behind.
func untilSignalled() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	// Caught rather than ignored: programs that we start inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// Under nohup SIGHUP is ignored, and stays so.
	if !signal.Ignored(syscall.SIGHUP) {
		endOn(ctx, cancel, syscall.SIGHUP)
	}
	asked, stopAsked := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(asked, func() {
		stopAsked()
		cancel()
	})
	return ctx, cancel
}

// endOn cancels on the first signal and takes no notice of those after it.
func endOn(ctx context.Context, cancel func(), sig os.Signal) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, sig)
	go func() { // ends with ctx, which ends with the program at the latest
		select {
		case <-came:
			cancel()
		case <-ctx.Done():
		}
	}()
}
