package federation

import (
	"bytes"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// A mark is a rule file without rules whose name says which files a server was
// given. A server tells the names of its rule files together with the rest of its
// configuration, so that it can be asked which files it has loaded, in whatever
// file they differ from those before.
const (
	markPrefix = "loaded-"
	markSuffix = ".rules.yaml"
)

var markName = regexp.MustCompile(markPrefix + `([0-9a-f]+)` + regexp.QuoteMeta(markSuffix))

// mark adds a mark to the files of a server.
func mark(files promcfg.Files, digest string) error {
	var config yaml.Node
	if err := yaml.Unmarshal(files[promcfg.ConfigFile], &config); err != nil {
		return fmt.Errorf("reading the rendered configuration: %w", err)
	}
	name := markPrefix + digest + markSuffix
	root := config.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "rule_files" {
			root.Content[i+1].Content = append(root.Content[i+1].Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name})
		}
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&config); err != nil {
		return fmt.Errorf("marking the rendered configuration: %w", err)
	}
	rules, err := promcfg.Marshal(map[string][]string{"groups": {}})
	files[promcfg.ConfigFile], files[name] = out.Bytes(), rules
	return err
}

// markIn is the digest by which a configuration is marked, nothing if it is not.
func markIn(config string) string {
	if found := markName.FindStringSubmatch(config); found != nil {
		return found[1]
	}
	return ""
}
