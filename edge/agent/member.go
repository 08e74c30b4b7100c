package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/pharos-fleet/pharos/internal/kube"
)

const (
	// probeInterval, probeTimeout and upFor belong together: one probe may
	// fail without harm, and a hang shows within upFor of the last good one.
	probeInterval = 5 * time.Second
	probeTimeout  = 4 * time.Second
	upFor         = 12 * time.Second
	// firstInterval is how often a new connection is probed until it is good.
	firstInterval = 500 * time.Millisecond
	// nodesFor is how long nodes are exported after the last good probe. A
	// connection that is dead for longer is given up.
	nodesFor = 30 * time.Second
	// secretInterval is how often, give or take secretJitter of it, the
	// kubeconfig is looked at for a change while all is well: a cell has hundreds
	// of clusters. While probes fail it is looked at every secretFailing.
	secretInterval = 30 * time.Second
	secretJitter   = 0.2
	secretFailing  = 5 * time.Second
	secretTimeout  = 5 * time.Second
)

var errRotated = errors.New("the kubeconfig has changed")

// member keeps a connection to one business cluster. It has one goroutine.
type member struct {
	key    memberKey
	cell   kubernetes.Interface
	log    *slog.Logger
	now    func() time.Time
	cancel context.CancelFunc
	done   chan struct{}
	// secretInterval is the Agent's.
	secretInterval time.Duration
	errors         atomic.Int64 // failures to connect, of the watch and of probes

	mu       sync.Mutex
	conn     *connection // the newest, kept for the proxy while it is tried again
	known    bool        // whether conn watches and has had a good probe
	lastGood time.Time   // when a probe was last good; at first, when the member began
	trouble  trouble     // what the last attempt failed of, if none has been good since
}

func (a *Agent) startMember(ctx context.Context, key memberKey) *member {
	ctx, cancel := context.WithCancel(ctx)
	m := &member{
		key: key, cell: a.cell, now: a.now, lastGood: a.now(),
		log:    a.log.With(slog.String("Cluster", key.namespace+"/"+key.name)),
		cancel: cancel, done: make(chan struct{}), secretInterval: a.secretInterval,
	}
	go func() {
		defer close(m.done)
		m.run(ctx)
	}()
	return m
}

// stop returns once the member has ended.
func (m *member) stop() {
	m.cancel()
	<-m.done
}

func (m *member) run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Second),
		backoff.WithMaxInterval(30*time.Second),
		backoff.WithMaxElapsedTime(0),
	)
	said := false // whether the present trouble has been told
	for ctx.Err() == nil {
		err := m.connectOnce(ctx, func() { retry.Reset(); said = false })
		if errors.Is(err, errRotated) {
			m.log.Info("reconnecting", slog.String("reason", err.Error()))
			continue
		}
		if ctx.Err() == nil && !said {
			m.log.Error("business cluster not watched, trying again until it is", slog.Any("error", err))
			said = true
		}
		sleep(ctx, retry.NextBackOff())
	}
}

// connectOnce keeps one connection as long as it is of use, and says why it ended.
func (m *member) connectOnce(ctx context.Context, onGood func()) error {
	kubeconfig, err := m.readKubeconfig(ctx)
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		m.use(nil) // whoever took it away meant it
	}
	if err != nil {
		m.fail(troubleOfReading(err))
		return err
	}
	conn, err := connect(kubeconfig, m.onWatchError)
	m.use(conn)
	if err != nil {
		m.fail(kubeconfigBroken)
		return err
	}
	defer m.doubt()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { conn.run(ctx) })
	defer watching.Wait()
	defer cancel()
	return m.keep(ctx, conn, sha256.Sum256(kubeconfig), onGood)
}

// keep probes a connection until its watch hangs, it is dead for too long, or
// its kubeconfig is another.
func (m *member) keep(ctx context.Context, conn *connection, used [sha256.Size]byte, onGood func()) error {
	began, good := m.now(), false
	lastSecret, interval := began, wait.Jitter(m.secretInterval, secretJitter)
	for {
		err := conn.probe(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			if !good {
				m.log.Info("business cluster watched")
			}
			good, began = true, m.now()
			m.good(began)
			onGood()
		} else if m.fail(troubleOfProbe(err)); errors.Is(err, errHangs) || m.now().Sub(began) > nodesFor {
			return err
		}
		if secretDue(m.now().Sub(lastSecret), interval, err != nil) {
			if err := m.checkSecret(ctx, used); err != nil {
				return err
			}
			lastSecret, interval = m.now(), wait.Jitter(m.secretInterval, secretJitter)
		}
		pause := probeInterval
		if !good {
			pause = firstInterval
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// secretDue says whether to look at the kubeconfig again, so long after the
// last look: a failing probe may mean that it was rotated.
func secretDue(age, interval time.Duration, failing bool) bool {
	return age >= interval || (failing && age >= secretFailing)
}

// checkSecret asks for the end of a connection whose kubeconfig has changed or
// is gone. A cell that does not answer is no reason to end it.
func (m *member) checkSecret(ctx context.Context, used [sha256.Size]byte) error {
	kubeconfig, err := m.readKubeconfig(ctx)
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		return err
	}
	if err == nil && sha256.Sum256(kubeconfig) != used {
		return errRotated
	}
	return nil
}

// noKubeconfigError says that the cell answered, and has no kubeconfig for us.
type noKubeconfigError struct{ reason string }

func (e *noKubeconfigError) Error() string { return e.reason }

func (m *member) readKubeconfig(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	secret, err := m.cell.CoreV1().Secrets(m.key.namespace).Get(ctx, m.key.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, &noKubeconfigError{fmt.Sprintf("Secret %s/%s does not exist", m.key.namespace, m.key.secret)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", m.key.namespace, m.key.secret, err)
	}
	kubeconfig := secret.Data[kube.SecretKeyKubeconfig]
	if len(kubeconfig) == 0 {
		return nil, &noKubeconfigError{fmt.Sprintf("Secret %s/%s has no key %s", m.key.namespace, m.key.secret, kube.SecretKeyKubeconfig)}
	}
	return kubeconfig, nil
}

func (m *member) onWatchError(_ context.Context, _ *cache.Reflector, err error) {
	m.errors.Add(1)
	m.log.Debug("watch of nodes interrupted", slog.Any("error", err))
}

// use replaces the connection; nil forgets it, credentials and all.
func (m *member) use(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn, m.known = c, false
}

func (m *member) good(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.lastGood, m.trouble = true, at, ""
}

// doubt marks that nothing watches any more.
func (m *member) doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = false
}

// connection returns the newest connection, dead or alive, or nil.
func (m *member) connection() *connection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn
}

// view says whether the cluster is up at the given time, and which nodes it is
// known to have; nil when they are not known.
func (m *member) view(now time.Time) (up bool, nodes []*corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := now.Sub(m.lastGood)
	if !m.known || age > nodesFor {
		return false, nil
	}
	return age <= upFor, listOf[*corev1.Node](m.conn.nodes)
}

// age is the time since the cluster was last seen to be watched, or since we began.
func (m *member) age(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.lastGood)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
