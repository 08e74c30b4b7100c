package binaries

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// failure is a run of the go command that gave no binary.
type failure struct {
	err        error
	output     string // end of what the go command printed
	log, cache string
}

// cause is one way in which builds fail, known by the words of the go command.
type cause struct {
	words *regexp.Regexp
	says  string // sentence for the user; %s is the line that gave it away
}

// causes returns what is known, in the order in which it is tried: a full disk
// also makes compile errors, and an old Go cannot even read the module.
func causes() []cause {
	return []cause{
		{regexp.MustCompile(`no space left on device|disk quota exceeded`), "the disk is full: " + freeSpace},
		{regexp.MustCompile(`requires go >= |invalid go version|toolchain not available`),
			"the Go toolchain is too old: " + getGo + " (%s)"},
		{regexp.MustCompile(`^(go: |build cache).*\bGO(CACHE|MODCACHE|EXPERIMENT|TOOLCHAIN|ROOT|PATH|ENV|TMPDIR|AMD64|ARM64)\b`),
			"a setting of the go command is of no use: unset it in the environment, or with `go env -u`, and run again (%s)"},
		{regexp.MustCompile(`dial tcp|lookup \S+( on \S+)?: |i/o timeout|TLS handshake|connection (refused|reset)|proxyconnect|` +
			`network is unreachable|: 40[0-9] |: 410 |: 429 |: 50[0-9] |https?://.*unexpected EOF|module lookup disabled|x509: `),
			"modules cannot be downloaded: check the network, or set GOPROXY to a module proxy that this machine can reach, and run again (%s)"},
		{regexp.MustCompile(`checksum mismatch|SECURITY ERROR`),
			"a downloaded module is not the one that was pinned: use another GOPROXY (%s)"},
		{regexp.MustCompile(`signal: killed|cannot allocate memory`),
			"the compiler was killed, most likely for lack of memory: free about 4 GB of it and run again (%s)"},
	}
}

const (
	getGo     = "install a current Go from https://go.dev/dl, or point --bin-dir at ready binaries"
	freeSpace = "free about 10 GB for the cache of server binaries and Go's build cache, and run again; what was finished is kept"
)

// diagnose turns a failed run into one sentence that says what to do.
func (c Component) diagnose(ctx context.Context, f failure) error {
	if stopped := context.Cause(ctx); stopped != nil {
		return fmt.Errorf("building %s was interrupted; what was finished is kept, run again to go on: %w", c.Name, stopped)
	}
	if errors.Is(f.err, unix.ENOSPC) {
		return fmt.Errorf("building %s: %w", c.Name, explain(f.err, f.cache))
	}
	for _, known := range causes() {
		if line := firstLine(f.output, known.words); line != "" {
			return fmt.Errorf("building %s: %s; the whole output is in %s: %w", c.Name, phrase(known.says, line), f.log, f.err)
		}
	}
	// Lines that begin with # are headings.
	return fmt.Errorf("building %s: the go command failed (%s); the whole output is in %s: %w",
		c.Name, firstLine(f.output, regexp.MustCompile(`^[^#]`)), f.log, f.err)
}

// firstLine finds the first line with the given words, progress left out.
func firstLine(output string, words *regexp.Regexp) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "go: downloading ") && words.MatchString(line) {
			return line
		}
	}
	return ""
}

func phrase(says, line string) string {
	if !strings.Contains(says, "%s") {
		return says
	}
	return strings.Replace(says, "%s", line, 1)
}

// explain adds to an error of ours what to do about a full disk.
func explain(err error, cache string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("the disk of %s is full: %s: %w", cache, freeSpace, err)
	}
	return err
}
