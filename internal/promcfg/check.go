package promcfg

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckLabelValue refuses what cannot be the value of an identifying label:
// nothing, too much, control characters and broken UTF-8. Quotes, commas,
// braces and other scripts are fine. The error begins with what.
func CheckLabelValue(what, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%s: is empty", what)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s: %q is not UTF-8", what, value)
	case len(value) > 253:
		return fmt.Errorf("%s: is %d bytes long, at most 253 are allowed", what, len(value))
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: %q has control characters", what, value)
	}
	return nil
}

// CheckAddress refuses what is not host:port. The error begins with what.
func CheckAddress(what, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %q is not host:port: %w", what, address, err)
	}
	return checkHost(what, address, host, port)
}

// checkHost refuses what neither a name nor an address can be. Above all it
// refuses what would be read as something else on its way: $1 is a group of a
// relabelling, {shard} what nobody has filled in.
func checkHost(what, of, host, port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%s: %q has no valid port", what, of)
	}
	strange := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:", r)
	}
	if host == "" || strings.ContainsFunc(host, strange) {
		return fmt.Errorf("%s: %q has no valid host", what, of)
	}
	return nil
}

// Endpoint is an address as it is compared with others: host names know no case
// and may end in a dot, a port may begin with zeros, and an IP address has many
// spellings. What CheckAddress refuses is left as it is.
func Endpoint(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	} else {
		host = strings.ToLower(strings.TrimSuffix(host, "."))
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10))
}

// CheckURL refuses what is not an absolute URL of one of the schemes, and what of
// one no server would see. The error begins with what.
func CheckURL(what, raw string, schemes ...string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Contains(schemes, u.Scheme) || u.Host == "" {
		return fmt.Errorf("%s: %q is not an absolute URL with scheme %s", what, raw, strings.Join(schemes, " or "))
	}
	if strings.ContainsAny(raw, "#{}") {
		return fmt.Errorf("%s: %q has one of # { } in it, which no server would be asked for", what, raw)
	}
	return checkHost(what, u.Redacted(), u.Hostname(), cmp.Or(u.Port(), "1")) // without one, the scheme's
}

func selector(labels map[string]string) string {
	terms := make([]string, 0, len(labels))
	for name, value := range labels {
		terms = append(terms, name+"="+value)
	}
	slices.Sort(terms)
	return strings.Join(terms, ",")
}
