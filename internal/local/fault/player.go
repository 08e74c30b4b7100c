package fault

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// How long a flapping kubelet is dead and alive. Dead is longer than the forty
// seconds after which Kubernetes gives a node up, or nobody would see it.
const (
	flapDead  = 60 * time.Second
	flapAlive = 30 * time.Second
	// playInterval is how often the player looks for what to do.
	playInterval = 2 * time.Second
)

// Player plays the faults that need a hand while they last: it lets flapping
// nodes die and come back. It runs beside the fleet, always.
type Player struct {
	injector *Injector
	log      *slog.Logger
	// turned is when each flapping node was last turned.
	turned map[string]time.Time
}

// NewPlayer makes a player.
func NewPlayer(i *Injector, log *slog.Logger) *Player {
	return &Player{injector: i, log: log, turned: map[string]time.Time{}}
}

// Run plays until ctx is done.
func (p *Player) Run(ctx context.Context) error {
	tick := time.NewTicker(playInterval)
	defer tick.Stop()
	for {
		if err := p.Play(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.Warn("faults not played", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Play turns the flapping nodes whose time has come. Run calls it again and again.
func (p *Player) Play(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	broken, err := p.injector.brokenNodes(ctx)
	if err != nil {
		return err
	}
	flapping := map[string]time.Time{}
	for _, b := range broken {
		if b.fault.Kind != NodeFlap {
			continue
		}
		since, seen := p.turned[b.node.Name]
		if !seen {
			since = now
		}
		turn := nextTurn(alive(b.node), since)
		if !now.Before(turn) {
			if err := p.turn(ctx, b); err != nil {
				return err
			}
			since = now
		}
		flapping[b.node.Name] = since
	}
	// A node that was mended starts anew when it is broken again.
	p.turned = flapping
	return nil
}

func nextTurn(alive bool, since time.Time) time.Time {
	if alive {
		return since.Add(flapAlive)
	}
	return since.Add(flapDead)
}

func (p *Player) turn(ctx context.Context, b brokenNode) error {
	to := !alive(b.node)
	err := update(ctx, p.injector.clients[b.cluster], &b.node, func(n *corev1.Node) {
		// Mended between the look and now: leave it alone.
		if Kind(n.Annotations[layout.AnnotationFault]) == NodeFlap {
			setKubelet(n, to)
		}
	})
	if err != nil {
		return fmt.Errorf("turning node %s: %w", b.node.Name, err)
	}
	p.log.Info("flapping node turned", slog.String("node", b.node.Name), slog.Bool("alive", to))
	return nil
}

func alive(n corev1.Node) bool { return n.Labels[layout.LabelKubelet] == layout.KubeletRunning }
