package notify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testToken  = "tok3n-never-shown"
	testSecret = "SECnever-shown"
)

// robotAt is a robot whose token and secret lie in files.
func robotAt(t *testing.T, url string) Robot {
	t.Helper()
	dir := t.TempDir()
	r := Robot{Name: "ops", URL: url, AccessTokenFile: filepath.Join(dir, "token"), SecretFile: filepath.Join(dir, "secret")}
	require.NoError(t, os.WriteFile(r.AccessTokenFile, []byte(testToken+"\n"), 0o600))
	require.NoError(t, os.WriteFile(r.SecretFile, []byte(testSecret+"\n"), 0o600))
	return r
}

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   verdict
	}{
		"ok":               {200, `{"errcode":0,"errmsg":"ok"}`, verdictSent},
		"busy":             {200, `{"errcode":-1,"errmsg":"system busy"}`, verdictRetry},
		"limited":          {200, `{"errcode":130101,"errmsg":"too fast"}`, verdictLimited},
		"too large":        {200, `{"errcode":460101,"errmsg":"too large"}`, verdictTooBig},
		"token":            {200, `{"errcode":300001,"errmsg":"no"}`, verdictRefused},
		"signature":        {200, `{"errcode":310000,"errmsg":"sign not match"}`, verdictRefused},
		"quota":            {200, `{"errcode":90030,"errmsg":"quota"}`, verdictUnknown},
		"no code":          {200, `{}`, verdictRetry},
		"page of a proxy":  {200, `<html>`, verdictRetry},
		"bad gateway":      {502, ``, verdictRetry},
		"too many":         {429, ``, verdictRetry},
		"wrong address":    {404, ``, verdictUnknown},
		"redirect":         {302, ``, verdictUnknown},
		"ok in a bad page": {500, `{"errcode":0}`, verdictRetry},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := classify(c.status, []byte(c.body))
			require.Equal(t, c.want, got)
			require.Equal(t, c.want == verdictSent, err == nil, "whatever was not sent says why: %v", err)
		})
	}
}

func TestSendURL(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	mac := hmac.New(sha256.New, []byte("SEC+/="))
	mac.Write([]byte("1700000000123\nSEC+/="))

	u, err := url.Parse(sendURL("https://oapi.example/", "t&k", "SEC+/=", at))
	require.NoError(t, err)
	require.Equal(t, "/robot/send", u.Path)
	require.Equal(t, url.Values{
		"access_token": {"t&k"}, "timestamp": {"1700000000123"},
		"sign": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}, u.Query())
	require.Equal(t, "https://oapi.example/robot/send?access_token=t", sendURL("https://oapi.example", "t", "", at))
}

func TestErrorsNeverShowTheToken(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	for name, base := range map[string]string{
		"refused connection": "http://127.92.0.1:1",
		"no such host":       "http://robot.invalid",
		"bad address":        "http://127.92.0.1:bad",
	} {
		s := sender{robot: robotAt(t, base), client: newHTTPClient(), now: time.Now}
		_, err := s.send(t.Context(), newMessage("t", "x"))
		require.Error(t, err, name)
		log.Error("message not sent yet", slog.Any("error", err))
		require.NotContains(t, logged.String(), testToken, name)
		require.NotContains(t, logged.String(), "sign=", name)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	stranger := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the token was carried elsewhere") })
	robot := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, stranger+"/?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
	})
	s := sender{robot: robotAt(t, robot), client: newHTTPClient(), now: time.Now}
	v, err := s.send(t.Context(), newMessage("t", "x"))
	require.Equal(t, verdictUnknown, v)
	require.ErrorContains(t, err, "check the robot's url")
}

func TestARotatedTokenIsUsedAtOnce(t *testing.T) {
	var tokens []string
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.URL.Query().Get("access_token"))
		_, _ = w.Write([]byte(`{"errcode":0}`))
	})
	s := sender{robot: robotAt(t, base), client: newHTTPClient(), now: time.Now}
	for _, token := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(s.robot.AccessTokenFile, []byte(token), 0o600))
		v, err := s.send(t.Context(), newMessage("t", "x"))
		require.NoError(t, err)
		require.Equal(t, verdictSent, v)
	}
	require.Equal(t, []string{"first", "second"}, tokens)
}
