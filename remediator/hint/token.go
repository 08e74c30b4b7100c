package hint

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const (
	// minToken is the length of the shortest token that nobody guesses.
	minToken = 16
	maxToken = 4096
)

// readToken reads the token anew, so that it can be replaced while the program runs.
func readToken(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the token of the web hook: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return nil, fmt.Errorf("reading the token of the web hook: %w", err)
	}
	token := bytes.TrimSpace(raw)
	if len(token) < minToken || len(raw) > maxToken {
		return nil, fmt.Errorf("reading the token of the web hook: file %s must hold %d to %d characters", file, minToken, maxToken)
	}
	return token, nil
}

// shows tells whether a request bears the token. How long that takes says nothing of
// the token, nor of its length.
func shows(req *http.Request, token []byte) bool {
	given := req.Header.Values("Authorization")
	if len(given) != 1 {
		return false
	}
	scheme, value, _ := strings.Cut(given[0], " ")
	want, got := sha256.Sum256(token), sha256.Sum256([]byte(strings.TrimSpace(value)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
