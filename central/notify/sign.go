package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sendURL is the address of one message. It holds the token, so it must reach
// neither a log nor an error.
func sendURL(base, token, secret string, now time.Time) string {
	q := url.Values{"access_token": {token}}
	if secret != "" {
		millis := strconv.FormatInt(now.UnixMilli(), 10)
		q.Set("timestamp", millis)
		q.Set("sign", sign(secret, millis)) // Encode escapes it, once
	}
	return strings.TrimSuffix(base, "/") + "/robot/send?" + q.Encode()
}

func sign(secret, millis string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(millis + "\n" + secret))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
