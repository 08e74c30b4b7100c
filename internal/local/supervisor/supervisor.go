package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"
)

// logMegabytes bounds the log of one component; one older file is kept beside it.
const logMegabytes = 16

// Options of a Supervisor.
type Options struct {
	Plan Plan
	// StatusFile and EventsFile are written on each change.
	StatusFile, EventsFile string
	// LogDir holds the output of each component, in <name>.log.
	LogDir string
	// Log is the supervisor's own.
	Log *slog.Logger
	// HungAfter is how long a process that was ready may not answer before it is
	// started again. Zero means a minute.
	HungAfter time.Duration
}

// Supervisor runs a plan.
type Supervisor struct {
	plan   Plan
	logDir string
	rec    *recorder
	spawn  *spawner
	ready  map[string]*gate
	stop   map[int]*gate
	// hungAfter is how long a process that was ready may not answer.
	hungAfter time.Duration
}

// New checks the plan and writes the first status.
func New(o Options) (*Supervisor, error) {
	if err := o.Plan.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		return nil, errors.New("supervising: no logger given")
	}
	if err := os.MkdirAll(o.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("making log folder: %w", err)
	}
	s := &Supervisor{
		plan: o.Plan, logDir: o.LogDir, rec: newRecorder(o, o.Plan), spawn: newSpawner(),
		ready: map[string]*gate{}, stop: map[int]*gate{},
		hungAfter: cmp.Or(o.HungAfter, defaultHungAfter),
	}
	for _, c := range o.Plan.Components {
		s.ready[c.Name] = newGate()
	}
	for _, phase := range o.Plan.phases() {
		s.stop[phase] = newGate()
	}
	if err := s.rec.write(); err != nil {
		return nil, err
	}
	return s, nil
}

// Run runs the plan until ctx is done, then ends every process, phase by phase,
// and returns when the last one has ended.
func (s *Supervisor) Run(ctx context.Context) error {
	// Processes whose parent has died come to us, so that none becomes a stray.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the reaper of orphans: %w", err)
	}
	var spawner, components sync.WaitGroup
	spawner.Go(s.spawn.run)
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	spawner.Go(func() { s.spawn.reapOrphans(reaping) })

	phases := map[int]*sync.WaitGroup{}
	for _, phase := range s.plan.phases() {
		phases[phase] = &sync.WaitGroup{}
	}
	for _, c := range s.plan.Components {
		components.Add(1)
		phases[c.StopPhase].Go(func() {
			defer components.Done()
			s.runComponent(c)
		})
	}
	<-ctx.Done()
	for _, phase := range s.plan.phases() {
		s.stop[phase].open()
		phases[phase].Wait()
	}
	components.Wait()
	stopReaping()
	s.spawn.close()
	spawner.Wait()
	return nil
}

// Status is how the components are now.
func (s *Supervisor) Status() Status { return s.rec.snapshot() }

func (s *Supervisor) newLog(name string) *lumberjack.Logger {
	return &lumberjack.Logger{Filename: filepath.Join(s.logDir, name+".log"), MaxSize: logMegabytes, MaxBackups: 1}
}

// gate opens once and stays open.
type gate struct {
	once sync.Once
	c    chan struct{}
}

func newGate() *gate { return &gate{c: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.c) }) }

func (g *gate) opened() <-chan struct{} { return g.c }
