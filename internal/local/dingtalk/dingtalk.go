// Package dingtalk is a sink that answers like a DingTalk custom robot, its
// refusals and limits included, and keeps what it accepts. It exists for the
// local fleet and for tests; it sends nothing to anybody.
package dingtalk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/pharos-fleet/pharos/internal/obs"
)

// Codes that a robot answers with, always under HTTP status 200.
const (
	CodeOK          = 0
	CodeBusy        = -1
	CodeBadRequest  = 40035
	CodeRateLimited = 130101
	CodeBadToken    = 300001
	CodeForbidden   = 310000
	CodeTooLarge    = 460101
)

// Limits of a robot, as the provider publishes them.
const (
	maxBodyBytes = 20_000
	maxPerMinute = 20
	silence      = 10 * time.Minute
	maxSkew      = time.Hour
)

// Options of a Sink.
type Options struct {
	// Listen is the host:port that Run serves on. A Sink used only through
	// Handler needs none.
	Listen string
	// Dir keeps the accepted messages as JSON lines. It is created.
	Dir string
	// AccessToken that callers must present.
	AccessToken string
	// Secret that callers must sign with. Empty turns the check of signatures off.
	Secret string
	// Keyword that each message must contain. Empty turns the check off.
	Keyword string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives one line per refusal; nil drops them.
	Log *slog.Logger
}

// Message is one accepted message.
type Message struct {
	Time    time.Time `json:"time"`
	MsgType string    `json:"msgtype"`
	Title   string    `json:"title,omitempty"`
	Text    string    `json:"text"`
}

// Answer is what a robot says to a caller.
type Answer struct {
	Code    int    `json:"errcode"`
	Message string `json:"errmsg"`
}

// Sink is one robot. Its zero value is not usable; see New.
type Sink struct {
	opts Options

	mu          sync.Mutex
	store       *store
	accepted    []time.Time // times of acceptance within the last minute
	silentUntil time.Time
	busy        int // how many requests still to answer with CodeBusy
}

// New opens the folder of kept messages. It fails when a required option is
// missing or the folder cannot be read or written.
func New(opts Options) (*Sink, error) {
	if opts.Dir == "" || opts.AccessToken == "" {
		return nil, errors.New("a sink needs a folder and an access token")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of messages: %w", err)
	}
	st, err := openStore(opts.Dir)
	if err != nil {
		return nil, err
	}
	return &Sink{opts: opts, store: st}, nil
}

// Run serves until ctx ends, and closes the folder.
func (s *Sink) Run(ctx context.Context) error {
	srv, err := obs.NewServer(obs.ServerOptions{
		Address:  s.opts.Listen,
		Registry: obs.NewRegistry(),
		Handler:  s.Handler(),
		Log:      s.opts.Log,
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(srv.Run(ctx), s.Close())
}

// Close releases the file of messages. It must be called once nothing is
// served any more; Run does so by itself.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.close()
}

// Handler serves POST /robot/send, GET /messages and POST /busy?count=N, which
// makes the next N sends meet a busy robot.
func (s *Sink) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /robot/send", s.serveSend)
	mux.HandleFunc("GET /messages", s.serveMessages)
	mux.HandleFunc("POST /busy", s.serveBusy)
	return mux
}

// Messages lists what was accepted, oldest first, messages of earlier runs included.
func (s *Sink) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message{}, s.store.messages...)
}
