package controller

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// connect refuses one server under two names: it would agree with itself. URLs
// that differ and lead to one server are found out when it is asked.
func connect(urls map[string]string, now func() time.Time) ([]signal.Central, error) {
	names := make([]string, 0, len(urls))
	for name := range urls {
		names = append(names, name)
	}
	slices.Sort(names)
	var centrals []signal.Central
	seen := map[string]string{}
	for _, name := range names {
		c, err := promapi.New(promapi.Options{URL: urls[name], Now: now})
		if err != nil {
			return nil, fmt.Errorf("central %s: %w", name, err)
		}
		server := normal(urls[name])
		if other, ok := seen[server]; ok {
			return nil, fmt.Errorf("centrals %s and %s have the same URL %s: two servers must agree", other, name, server)
		}
		seen[server] = name
		centrals = append(centrals, signal.Central{Name: name, Client: c})
	}
	return centrals, nil
}

// normal writes what URLs of one server have in common in one way.
func normal(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port) + strings.TrimSuffix(path.Clean("/"+u.Path), "/")
}
