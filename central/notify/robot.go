package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	sendTimeout    = 10 * time.Second
	maxAnswerBytes = 64 << 10
)

// verdict is what to do after an attempt to send.
type verdict string

const (
	verdictSent    verdict = "sent"
	verdictRetry   verdict = "retry"   // nobody knows better than to try again
	verdictLimited verdict = "limited" // silent for ten minutes
	verdictTooBig  verdict = "too_big" // cut smaller
	verdictRefused verdict = "refused" // no repetition will help
	verdictUnknown verdict = "unknown" // an answer we do not know: retried, but not for ever
)

// verdicts lists every value that the metric's label may have.
var verdicts = []verdict{verdictSent, verdictRetry, verdictLimited, verdictTooBig, verdictRefused, verdictUnknown}

// Codes of the provider, which answers HTTP 200 to all of them.
const (
	codeOK          = 0
	codeBusy        = -1
	codeRateLimited = 130101
	codeNoToken     = 300001
	codeForbidden   = 310000
	codeTooLarge    = 460101
)

// classify reads an answer. An answer that is not the provider's JSON came from
// something in between, and says nothing about the message.
func classify(status int, body []byte) (verdict, error) {
	if status >= 500 || status == http.StatusTooManyRequests {
		return verdictRetry, fmt.Errorf("provider answered HTTP %d", status)
	}
	if status != http.StatusOK {
		return verdictUnknown, fmt.Errorf("provider answered HTTP %d; check the robot's url", status)
	}
	var answer struct {
		Code    *int   `json:"errcode"`
		Message string `json:"errmsg"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Code == nil {
		return verdictRetry, errors.New("provider's answer has no errcode")
	}
	return classifyCode(*answer.Code), codeError(*answer.Code, answer.Message)
}

func classifyCode(code int) verdict {
	switch code {
	case codeOK:
		return verdictSent
	case codeBusy:
		return verdictRetry
	case codeRateLimited:
		return verdictLimited
	case codeTooLarge:
		return verdictTooBig
	case codeNoToken, codeForbidden:
		return verdictRefused
	}
	return verdictUnknown
}

// answered is what the provider had to say against a message.
type answered struct {
	code    int
	message string
}

// Error says what to do, where the code does.
func (a *answered) Error() string {
	message := oneLine(a.message)
	switch a.code {
	case codeNoToken:
		return fmt.Sprintf("provider knows no such access token (%d %s); check accessTokenFile", a.code, message)
	case codeForbidden:
		return fmt.Sprintf("provider's security check refused (%d %s); check secretFile, the clock, the robot's keywords and its allowed addresses", a.code, message)
	}
	return fmt.Sprintf("provider answered %d %s", a.code, message)
}

func codeError(code int, message string) error {
	if code == codeOK {
		return nil
	}
	return &answered{code, message}
}

// otherCode stands for every code that is not known, so that a provider cannot
// make labels, and for what was given up without one.
const otherCode = "other"

// noCredentials stands for the code of a robot that no provider was asked about,
// because its token or secret cannot be read.
const noCredentials = "credentials"

// errcodes lists every value that the label of what was refused may have.
func errcodes() []string {
	codes := []string{otherCode}
	for _, code := range []int{codeNoToken, codeForbidden, codeTooLarge} {
		codes = append(codes, strconv.Itoa(code))
	}
	return codes
}

func errcodeOf(err error) string {
	a, ok := errors.AsType[*answered](err)
	if !ok {
		return otherCode
	}
	if code := strconv.Itoa(a.code); slices.Contains(errcodes(), code) {
		return code
	}
	return otherCode
}

// sender sends one message to one robot.
type sender struct {
	robot  Robot
	client *http.Client
	now    func() time.Time
}

func newHTTPClient() *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		// A redirect would carry the token to somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s sender) send(ctx context.Context, m message) (verdict, error) {
	token, secret, err := s.robot.credentials()
	if err != nil {
		return verdictRetry, err // the file may be in the middle of a rotation
	}
	body, err := json.Marshal(m)
	if err != nil {
		return verdictRefused, fmt.Errorf("encoding a message: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sendURL(s.robot.URL, token, secret, s.now()), bytes.NewReader(body))
	if err != nil {
		return verdictRefused, fmt.Errorf("building a request: %w", redact(err))
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := s.client.Do(req)
	if err != nil {
		return verdictRetry, fmt.Errorf("asking the provider: %w", redact(err))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return verdictRetry, fmt.Errorf("reading the provider's answer: %w", redact(err))
	}
	return classify(resp.StatusCode, answer)
}

// redact takes the address, and with it the token, out of an error.
func redact(err error) error {
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		return withURL.Err
	}
	return err
}
