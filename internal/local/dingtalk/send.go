package dingtalk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func (s *Sink) serveSend(w http.ResponseWriter, r *http.Request) {
	// One byte over the limit is enough to know that a body is too large.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	if err != nil {
		http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer := s.send(r.URL.Query(), body)
	if answer.Code != CodeOK {
		s.opts.Log.Info("message refused", slog.Int("code", answer.Code), slog.String("reason", answer.Message))
	}
	writeJSON(w, answer)
}

// send checks in the order in which the provider would notice: who, how often, what.
func (s *Sink) send(query url.Values, body []byte) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if a := s.authenticate(query, now); a.Code != CodeOK {
		return a
	}
	if s.busy > 0 {
		s.busy--
		return Answer{CodeBusy, "system busy"}
	}
	if a := s.admit(now); a.Code != CodeOK {
		return a
	}
	if len(body) > maxBodyBytes {
		return Answer{CodeTooLarge, "message body is larger than 20000 bytes"}
	}
	msg, a := parse(body)
	if a.Code != CodeOK {
		return a
	}
	if !strings.Contains(msg.Title+"\n"+msg.Text, s.opts.Keyword) {
		return Answer{CodeForbidden, "keywords not in content"}
	}
	return s.keep(msg, now)
}

func (s *Sink) keep(msg Message, now time.Time) Answer {
	msg.Time = now
	if err := s.store.add(msg); err != nil {
		s.opts.Log.Error("message not kept", slog.Any("error", err))
		return Answer{CodeBusy, "system busy"}
	}
	s.accepted = append(s.accepted, now)
	return Answer{CodeOK, "ok"}
}

func (s *Sink) authenticate(query url.Values, now time.Time) Answer {
	if query.Get("access_token") != s.opts.AccessToken {
		return Answer{CodeBadToken, "token is not exist"}
	}
	if s.opts.Secret == "" {
		return Answer{}
	}
	millis, err := strconv.ParseInt(query.Get("timestamp"), 10, 64)
	if err != nil {
		return Answer{CodeForbidden, "invalid timestamp"}
	}
	if skew := now.Sub(time.UnixMilli(millis)).Abs(); skew > maxSkew {
		return Answer{CodeForbidden, "timestamp is more than one hour off"}
	}
	if !hmac.Equal([]byte(query.Get("sign")), []byte(signature(s.opts.Secret, query.Get("timestamp")))) {
		return Answer{CodeForbidden, "sign not match"}
	}
	return Answer{}
}

// signature is written here a second time, apart from the relay's own, so that
// one mistake cannot make both sides agree.
func signature(secret, timestamp string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, timestamp+"\n"+secret) // a hash never fails to write
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// admit keeps the rate: one message too many, and the robot is silent for ten minutes.
func (s *Sink) admit(now time.Time) Answer {
	if now.Before(s.silentUntil) {
		return Answer{CodeRateLimited, "send too fast, robot is silent"}
	}
	for len(s.accepted) > 0 && now.Sub(s.accepted[0]) >= time.Minute {
		s.accepted = s.accepted[1:]
	}
	if len(s.accepted) >= maxPerMinute {
		s.silentUntil = now.Add(silence)
		return Answer{CodeRateLimited, "send too fast, exceed 20 times per minute"}
	}
	return Answer{}
}

type request struct {
	MsgType string `json:"msgtype"`
	Text    struct {
		Content string `json:"content"`
	} `json:"text"`
	Markdown struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	} `json:"markdown"`
}

func parse(body []byte) (Message, Answer) {
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		return Message{}, Answer{CodeBadRequest, "body is not JSON"}
	}
	switch {
	case req.MsgType == "text" && req.Text.Content != "":
		return Message{MsgType: req.MsgType, Text: req.Text.Content}, Answer{}
	case req.MsgType == "markdown" && req.Markdown.Title != "" && req.Markdown.Text != "":
		return Message{MsgType: req.MsgType, Title: req.Markdown.Title, Text: req.Markdown.Text}, Answer{}
	}
	return Message{}, Answer{CodeBadRequest, "msgtype or a field that it needs is missing or not supported"}
}

func (s *Sink) serveMessages(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, s.Messages())
}

func (s *Sink) serveBusy(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("count"))
	if err != nil || n < 0 {
		http.Error(w, "count must be a number, 0 or more", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = n
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// The caller may have gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(v)
}
