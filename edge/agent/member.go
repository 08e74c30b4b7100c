package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// maxGreetings is how many clusters are greeted at once. One that hangs has its
	// turn for probeTimeout: with two hundred of those before it, in a cell of five
	// hundred, the last one waits for half a minute.
	maxGreetings = 32
)

// pace is how often a cluster is probed, and for how long what a good probe found is
// told: that it is up, and its nodes.
type pace struct{ probe, up, nodes time.Duration }

var errRotated = errors.New("the kubeconfig has changed")

// member keeps a connection to one cluster: a business cluster, or the cell
// itself.
type member struct {
	key    memberKey
	log    *slog.Logger
	now    func() time.Time
	cancel context.CancelFunc
	done   chan struct{}
	// credential reads what the connection is made of.
	credential func(context.Context) (credential, error)
	// loopback lets nodes be on this machine.
	loopback bool
	// greetings are the turns of all members of the Agent.
	greetings *semaphore.Weighted
	// pace and secretInterval are the Agent's.
	pace           pace
	secretInterval time.Duration
	errors         atomic.Int64 // failures to connect, of the watches and of probes
	certificates   expiry
	scrapes        *scrapeLog
	pods           podWatch

	mu       sync.Mutex
	conn     *connection        // the newest, kept for the proxy while it is tried again
	used     *[sha256.Size]byte // the credential that conn was made of
	known    bool               // whether conn watches and has had a good probe
	lastGood time.Time          // when a probe was last good; at first, when the member began
	trouble  trouble            // what the last attempt failed of, if none has been good since
}

// memberOptions are what a member needs of its Agent.
type memberOptions struct {
	key        memberKey
	credential func(context.Context) (credential, error)
	log        *slog.Logger
}

// newMember returns a member that does nothing yet.
func (a *Agent) newMember(o memberOptions) *member {
	return &member{
		key: o.key, credential: o.credential, log: o.log, now: a.now, lastGood: a.now(),
		scrapes: newScrapeLog(o.log), loopback: a.loopback, greetings: a.greetings,
		pace: a.pace, secretInterval: a.secretInterval, done: make(chan struct{}), cancel: func() {},
	}
}

// start runs the member until stop, or the end of ctx.
func (m *member) start(ctx context.Context) {
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		m.run(ctx)
	}()
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
			m.log.Error("cluster not watched, trying again until it is", slog.Any("error", err))
			said = true
		}
		sleep(ctx, retry.NextBackOff())
	}
}

// connectOnce keeps one connection as long as it is of use, and says why it ended.
func (m *member) connectOnce(ctx context.Context, onGood func()) error {
	credential, err := m.credential(ctx)
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		m.use(nil) // whoever took it away meant it
	}
	if err != nil {
		m.fail(troubleOfReading(err))
		return err
	}
	conn, err := m.open(credential)
	m.use(conn)
	if err != nil {
		m.fail(kubeconfigBroken)
		return err
	}
	defer m.doubt()
	conn.greet(ctx, m.greetings)
	ctx, cancel := context.WithCancel(ctx)
	var owned sync.WaitGroup
	owned.Go(func() { conn.run(ctx) })
	owned.Go(func() { m.followPods(ctx, conn) })
	owned.Go(func() { conn.peeker.run(ctx, &m.certificates) })
	defer owned.Wait()
	defer cancel()
	return m.keep(ctx, conn, credential.digest, onGood)
}

// open makes a connection of a credential. What is known of the certificates
// outlives a connection, and not the credential.
func (m *member) open(c credential) (*connection, error) {
	m.mu.Lock()
	same := m.used != nil && *m.used == c.digest
	m.used = &c.digest
	m.mu.Unlock()
	access, err := c.open()
	var ends time.Time
	if err == nil {
		ends, err = clientExpiry(access.config)
	}
	if !same || err != nil {
		m.certificates.begin(ends)
	}
	if err != nil {
		return nil, err
	}
	return connect(access, m.loopback, m.onWatchError)
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
				m.log.Info("cluster watched")
			}
			good, began = true, m.now()
			m.good(began)
			onGood()
		} else if m.fail(troubleOfProbe(err)); errors.Is(err, errHangs) || m.now().Sub(began) > m.pace.nodes {
			return err
		}
		if secretDue(m.now().Sub(lastSecret), interval, err != nil) {
			if err := m.checkCredential(ctx, used); err != nil {
				return err
			}
			lastSecret, interval = m.now(), wait.Jitter(m.secretInterval, secretJitter)
		}
		pause := m.pace.probe
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

// checkCredential asks for the end of a connection whose kubeconfig has changed
// or is gone. A cell that does not answer is no reason to end it.
func (m *member) checkCredential(ctx context.Context, used [sha256.Size]byte) error {
	credential, err := m.credential(ctx)
	if _, gone := errors.AsType[*noKubeconfigError](err); gone {
		return err
	}
	if err == nil && credential.digest != used {
		return errRotated
	}
	return nil
}

func (m *member) onWatchError(err error) {
	m.errors.Add(1)
	m.log.Debug("watch interrupted", slog.Any("error", err))
}

// use replaces the connection; nil forgets it, credentials and all.
func (m *member) use(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn, m.known = c, false
	m.pods.forget()
	if c == nil {
		m.used = nil
		m.certificates.begin(time.Time{})
	}
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
