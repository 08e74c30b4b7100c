package notify

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/central/alerting"
)

// Config is the content of notify.yaml.
type Config struct {
	Robots []Robot `json:"robots"`
}

// Robot is one DingTalk custom robot. Its token and secret are read from files
// before each message, so that a rotated one is used at once.
type Robot struct {
	// Name is the last part of the webhook's path: /alertmanager/{name}.
	Name string `json:"name"`
	// URL is the provider's, up to and without /robot/send.
	URL string `json:"url"`
	// AccessTokenFile and SecretFile are relative to the configuration file.
	// No SecretFile means that the robot does not check signatures.
	AccessTokenFile string `json:"accessTokenFile"`
	SecretFile      string `json:"secretFile,omitempty"`
}

// LoadConfig reads and checks notify.yaml, and makes its paths absolute. An
// unknown field is an error, because it is most often a misspelt one. A token
// that cannot be read is not: it would silence the other robots, too.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the notify configuration: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	for i := range c.Robots {
		c.Robots[i].resolve(filepath.Dir(path))
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("checking %s: %w", path, err)
	}
	return c, nil
}

func (r *Robot) resolve(dir string) {
	for _, file := range []*string{&r.AccessTokenFile, &r.SecretFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
}

func (c Config) validate() error {
	if len(c.Robots) == 0 {
		return errors.New("no robot is configured, so nobody would be told of any alert")
	}
	seen := map[string]bool{}
	for _, r := range c.Robots {
		if seen[r.Name] {
			return fmt.Errorf("robot %q is listed twice", r.Name)
		}
		seen[r.Name] = true
		if err := alerting.CheckRobotName(r.Name); err != nil {
			return err
		}
		if err := r.validate(); err != nil {
			return fmt.Errorf("robot %q: %w", r.Name, err)
		}
	}
	return nil
}

func (r Robot) validate() error {
	u, err := url.Parse(r.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("url must be http(s)://host, without /robot/send")
	}
	if u.RawQuery != "" || u.User != nil {
		return errors.New("url must carry no token or password: they belong into accessTokenFile")
	}
	if r.AccessTokenFile == "" {
		return errors.New("no accessTokenFile is named")
	}
	return nil
}

// credentials reads the access token and, where there is one, the secret.
func (r Robot) credentials() (token, secret string, err error) {
	if token, err = readSecret(r.AccessTokenFile); err != nil {
		return "", "", fmt.Errorf("reading accessTokenFile: %w", err)
	}
	if r.SecretFile == "" {
		return token, "", nil
	}
	if secret, err = readSecret(r.SecretFile); err != nil {
		return "", "", fmt.Errorf("reading secretFile: %w", err)
	}
	return token, secret, nil
}

func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}
