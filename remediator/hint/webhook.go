package hint

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Path of the web hook.
const Path = "/hints/alertmanager"

const (
	// maxBodyBytes bounds one call. Alertmanager groups alerts; a group beyond this
	// needs max_alerts in its receiver.
	maxBodyBytes = 4 << 20
	// maxCalls is how many calls are read at once.
	maxCalls = 4
	// readWithin is how long a call may take to be read.
	readWithin = 5 * time.Second
	// tellAgain is how often a call that is refused is logged.
	tellAgain = 30 * time.Second
)

// refusal is why a call is not taken, with the status that says so: 4xx only what
// will never be taken, since Alertmanager does not ask again after that.
type refusal struct {
	outcome outcome
	status  int
	err     error
}

func (h *Hints) serve(w http.ResponseWriter, req *http.Request) {
	hint, refused := h.accept(w, req)
	if refused == nil {
		h.metrics.count(sourceWebhook, h.ring(hint))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.metrics.count(sourceWebhook, refused.outcome)
	h.refusals.Do(func() {
		h.log.Warn("Hint refused", slog.String("source", sourceWebhook), slog.Int("status", refused.status), slog.Any("error", refused.err))
	})
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, refused.err.Error(), refused.status)
}

// accept reads nothing of a call before it has shown the token.
func (h *Hints) accept(w http.ResponseWriter, req *http.Request) (Hint, *refusal) {
	token, err := readToken(h.tokenFile)
	if err != nil {
		return Hint{}, &refusal{failed, http.StatusServiceUnavailable, err}
	}
	if !shows(req, token) {
		return Hint{}, &refusal{unauthorized, http.StatusUnauthorized,
			errors.New("the call does not show the token of the web hook: set http_config.authorization.credentials_file in Alertmanager's receiver")}
	}
	select {
	case h.calls <- struct{}{}:
		defer func() { <-h.calls }()
	default:
		return Hint{}, &refusal{failed, http.StatusServiceUnavailable, fmt.Errorf("%d calls are being read already: try again", maxCalls)}
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readWithin)); err != nil {
		return Hint{}, &refusal{failed, http.StatusInternalServerError, fmt.Errorf("setting a deadline: %w", err)}
	}
	return read(http.MaxBytesReader(w, req.Body, maxBodyBytes))
}

func read(body io.Reader) (Hint, *refusal) {
	data, err := io.ReadAll(body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Hint{}, &refusal{invalid, http.StatusRequestEntityTooLarge, fmt.Errorf("the call is larger than %d bytes: set max_alerts in Alertmanager's receiver", tooLarge.Limit)}
	}
	if err != nil {
		return Hint{}, &refusal{failed, http.StatusServiceUnavailable, fmt.Errorf("reading the call: %w", err)}
	}
	hint, err := parse(data)
	if err != nil {
		return Hint{}, &refusal{invalid, http.StatusBadRequest, err}
	}
	return hint, nil
}
