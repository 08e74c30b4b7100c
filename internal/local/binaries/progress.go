package binaries

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	renewEvery = time.Second      // on a terminal
	beatEvery  = 15 * time.Second // elsewhere
	eraseLine  = "\r\x1b[K"
)

// progress tells a person, or a log, how far the builds are.
type progress struct {
	out      io.Writer
	terminal bool
	started  time.Time
	n, total int
}

func newProgress(out io.Writer) *progress {
	file, ok := out.(*os.File)
	return &progress{out: out, terminal: ok && term.IsTerminal(int(file.Fd())), started: time.Now()}
}

// expect announces how many binaries are to be built.
func (p *progress) expect(total int, cache string) {
	p.n, p.total = 0, total
	if total > 0 {
		p.line(fmt.Sprintf("building %d server binaries into %s (all of them, for the first time: about 20 minutes on two cores)", total, cache))
	}
}

// begin says that a binary is being built, and goes on saying so until the
// returned function is called with the outcome.
func (p *progress) begin(what string) (done func(error)) {
	p.n++
	began := time.Now()
	place := fmt.Sprintf("%d of %d", p.n, p.total)
	stop := p.repeat(fmt.Sprintf("building %s: %s", place, what))
	return func(err error) {
		stop()
		verb := "built"
		if err != nil {
			verb = "gave up"
		}
		p.line(fmt.Sprintf("%s %s: %s in %s (%s so far)", verb, place, what, since(began), since(p.started)))
	}
}

// wait says what is being waited for until the returned function is called.
func (p *progress) wait(what string) (done func()) {
	return p.repeat(what)
}

// repeat prints text now and then with the time that has passed. It owns the
// goroutine that does so: stop waits for it.
func (p *progress) repeat(text string) (stop func()) {
	began, ended := time.Now(), make(chan struct{})
	every := beatEvery
	if p.terminal {
		every = renewEvery
	}
	p.status(text)
	var worker sync.WaitGroup
	worker.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				p.status(fmt.Sprintf("%s, %s (%s so far)", text, since(began), since(p.started)))
			}
		}
	})
	return func() {
		close(ended)
		worker.Wait()
		p.erase()
	}
}

// status is a line that the next one replaces, where that can be done.
func (p *progress) status(text string) {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, eraseLine+text)
		return
	}
	p.line(text)
}

func (p *progress) line(text string) {
	p.erase()
	_, _ = fmt.Fprintln(p.out, text)
}

func (p *progress) erase() {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, eraseLine)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
