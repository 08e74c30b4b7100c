package promcfg

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// LinkKind is how the servers of one tier feed the next.
type LinkKind string

const (
	// Pull reads the servers of the tier below at /federate.
	Pull LinkKind = "Federate"
	// Push has the servers of the tier below write to those above, and keep
	// what they could not write for as long as their log goes back.
	Push LinkKind = "RemoteWrite"
)

// Link is how a server and the next tier come together. The zero value pulls by
// plain HTTP.
type Link struct {
	// Kind unset means Pull.
	Kind LinkKind
	// Timeout of one scrape or one request. Unset means four fifths of the
	// interval and at most 10 s for a scrape, and 10 s for a request.
	Timeout time.Duration
	// Credentials are shown to the server that is read or written to.
	Credentials Credentials
}

// Of is the kind, with the default filled in.
func (l Link) Of() LinkKind { return cmp.Or(l.Kind, Pull) }

// Check refuses a link that Prometheus would not load, or with which no sample
// would ever be fresh. The error begins with what.
func (l Link) Check(what string, interval time.Duration) error {
	if err := CheckInterval(interval); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Contains([]LinkKind{Pull, Push}, l.Of()) {
		return fmt.Errorf("%s: kind %q is neither %s nor %s", what, l.Kind, Pull, Push)
	}
	if l.Timeout < 0 || l.Timeout%time.Millisecond != 0 {
		return fmt.Errorf("%s: timeout %s: must be whole milliseconds, or unset", what, l.Timeout)
	}
	if l.Of() == Pull && l.Timeout > interval {
		return fmt.Errorf("%s: scrape timeout %s is above the interval of %s: Prometheus would not load it; shorten the one or lengthen the other", what, l.Timeout, interval)
	}
	return l.Credentials.check(what + ": credentials")
}

// Scrape is how long one scrape over the link may take.
func (l Link) Scrape(interval time.Duration) time.Duration {
	return cmp.Or(l.Timeout, Timeout(interval))
}

const (
	// lookBack is how far back Prometheus looks for the newest sample.
	lookBack = 5 * time.Minute
	// fresh is how many intervals old a heartbeat may be: the rules of every
	// tier ask for samples that are no older.
	fresh = 6
)

// CheckLag refuses hops by which a sample arrives too old to be used. A server
// makes a sample every made, and each of the hops reads it once in an interval,
// within the timeout. The error begins with what.
func CheckLag(what string, made, interval, timeout time.Duration, hops int) error {
	lag := made + time.Duration(hops)*(interval+timeout)
	switch {
	case lag >= lookBack:
		return fmt.Errorf("%s: a sample may be %s old when it has come up, which is beyond the look-back of %s: nothing could be read; shorten the interval of the sender, or of the fleet", what, lag, lookBack)
	case lag > fresh*interval:
		return fmt.Errorf("%s: a sample may be %s old when it has come up, and counts as stale after %s (%d intervals): shorten the interval of the sender, or lengthen the fleet's", what, lag, fresh*interval, fresh)
	}
	return nil
}

// Credentials are files by which a server shows who it is, and knows whom it
// talks to. Every path is relative to the configuration file, so that a pod's
// root may be any folder.
type Credentials struct {
	// HTTPS has a pulled server asked by https. Where a server is written to,
	// its URL says so.
	HTTPS bool
	// CAFile is the authority of the server's certificate. Unset means the host's.
	CAFile string
	// CertFile and KeyFile are the certificate that is shown, both or neither.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate, where it is not that
	// of the address.
	ServerName string
	// BearerFile holds the token that is sent, over https only.
	BearerFile string
}

func (c Credentials) check(what string) error {
	var errs []error
	for _, file := range []struct{ field, path string }{
		{"CA file", c.CAFile}, {"certificate file", c.CertFile}, {"key file", c.KeyFile}, {"bearer token file", c.BearerFile},
	} {
		if strings.HasPrefix(file.path, "/") {
			errs = append(errs, fmt.Errorf("%s: %s %q: must be relative to the configuration file", what, file.field, file.path))
		}
		if file.path != "" {
			errs = append(errs, CheckLabelValue(what+": "+file.field, file.path))
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, fmt.Errorf("%s: certificate file %q and key file %q: one does not work without the other", what, c.CertFile, c.KeyFile))
	}
	return errors.Join(errs...)
}

// overHTTP refuses credentials that plain HTTP would not use, or would show to
// everybody on the way.
func (c Credentials) overHTTP(what string) error {
	if c.tls() != nil {
		return fmt.Errorf("%s: has files or a name for TLS, and plain http would not use them: say https", what)
	}
	if c.BearerFile != "" {
		return fmt.Errorf("%s: would send the token in %q over plain http, for everybody to read: say https", what, c.BearerFile)
	}
	return nil
}

func (c Credentials) tls() *TLS {
	t := TLS{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName}
	if t == (TLS{}) {
		return nil
	}
	return &t
}

func (c Credentials) authorization() *Authorization {
	if c.BearerFile == "" {
		return nil
	}
	return &Authorization{CredentialsFile: c.BearerFile}
}

// Receiver is one server that is written to.
type Receiver struct {
	// Name of the queue in the sender's own metrics. No two of a sender's are
	// called the same.
	Name string
	// URL that is written to, in full: that of a Prometheus ends in ReceivePath.
	URL string
	// Relabel is done last with what is written to it, and with nothing that others get.
	Relabel []Relabel
}

const (
	// ReceivePath is where a Prometheus takes what is written to it.
	ReceivePath = "/api/v1/write"
	// ReceiveFlag has a Prometheus take what is written to it at all.
	ReceiveFlag = "--web.enable-remote-write-receiver"
	// FlushFlag bounds how long a Prometheus that is told to stop tries to write
	// what it still holds. Its own minute is longer than a pod is given, so that a
	// pod whose receiver is away would be killed.
	FlushFlag = "--storage.remote.flush-deadline=10s"
)

// CheckReceivers refuses receivers that cannot be written to, or two of one
// name or URL, to which everything would be written twice. The error begins
// with what.
func CheckReceivers(what string, receivers []Receiver, c Credentials) error {
	seen := map[string]bool{}
	for _, r := range receivers {
		place := fmt.Sprintf("%s %q", what, r.Name)
		if err := CheckLabelValue(what+": name", r.Name); err != nil {
			return err
		}
		if err := CheckURL(place, r.URL, "http", "https"); err != nil {
			return err
		}
		u, err := url.Parse(r.URL)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		if u.User != nil {
			return fmt.Errorf("%s: the URL has a password in it: name a file with a token instead", place)
		}
		if seen["name "+r.Name] || seen["url "+r.URL] {
			return fmt.Errorf("%s: its name or its URL %q is there twice", place, r.URL)
		}
		seen["name "+r.Name], seen["url "+r.URL] = true, true
		if u.Scheme == "http" {
			if err := c.overHTTP(place); err != nil {
				return err
			}
		}
	}
	return nil
}
