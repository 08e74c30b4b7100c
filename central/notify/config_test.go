package notify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeConfig(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "robots"), 0o700))
	for name, value := range map[string]string{
		"notify.yaml": content, "robots/token": "t\n", "robots/secret": "s\n", "robots/empty": "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600))
	}
	return filepath.Join(dir, "notify.yaml")
}

func TestLoadConfigResolvesPathsBesideTheFile(t *testing.T) {
	path := writeConfig(t, `robots:
- {name: ops, url: "https://oapi.example", accessTokenFile: robots/token, secretFile: robots/secret}
- {name: open, url: "http://127.0.0.1:1", accessTokenFile: robots/token}
`)
	c, err := LoadConfig(path)
	require.NoError(t, err)
	require.Len(t, c.Robots, 2)
	token, secret, err := c.Robots[0].credentials()
	require.NoError(t, err)
	require.Equal(t, []string{"t", "s"}, []string{token, secret})
	require.Equal(t, filepath.Join(filepath.Dir(path), "robots/token"), c.Robots[1].AccessTokenFile)
}

func TestLoadConfigRefuses(t *testing.T) {
	robot := func(fields string) string { return "robots:\n- {" + fields + "}\n" }
	good := `name: ops, url: "https://a.example", accessTokenFile: robots/token`
	for name, c := range map[string]struct{ content, message string }{
		"nothing":       {"", "no robot is configured"},
		"unknown field": {robot(good + ", secretfile2: x"), "unknown field"},
		"twice":         {robot(good) + "- {" + good + "}\n", "listed twice"},
		"name":          {robot(`name: "../x", url: "https://a.example", accessTokenFile: robots/token`), `robot "../x": a name has up to 40`},
		"scheme":        {robot(`name: ops, url: "ftp://a.example", accessTokenFile: robots/token`), "url must be http"},
		"token in url":  {robot(`name: ops, url: "https://a.example?access_token=x", accessTokenFile: robots/token`), "url must carry no token"},
		"no token":      {robot(`name: ops, url: "https://a.example"`), "no accessTokenFile"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(writeConfig(t, c.content))
			require.ErrorContains(t, err, c.message)
		})
	}
	_, err := LoadConfig(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "reading the notify configuration")
}

func TestCredentialsThatCannotBeReadSayWhy(t *testing.T) {
	dir := filepath.Dir(writeConfig(t, ""))
	file := func(name string) string { return filepath.Join(dir, "robots", name) }
	for message, r := range map[string]Robot{
		"reading accessTokenFile": {AccessTokenFile: file("nowhere")},
		"is empty":                {AccessTokenFile: file("empty")},
		"reading secretFile":      {AccessTokenFile: file("token"), SecretFile: file("nowhere")},
	} {
		_, _, err := r.credentials()
		require.ErrorContains(t, err, message)
	}
}
