package federation

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// A mark is a rule file without rules whose name says which files a server was
// given: by a number that grows with each change, so that it can be told what is newer,
// and by a digest. A server tells the names of its rule files together with the rest of
// its configuration, so that it can be asked which files it has loaded, in whatever
// file they differ from those before.
const (
	markPrefix = "loaded-"
	markSuffix = ".rules.yaml"
)

var markName = regexp.MustCompile(markPrefix + `([0-9]+)-([0-9a-f]+)` + regexp.QuoteMeta(markSuffix))

// marked is what a mark says.
type marked struct {
	number uint64
	digest string
}

func (m marked) file() string {
	return fmt.Sprintf("%s%d-%s%s", markPrefix, m.number, m.digest, markSuffix)
}

// next marks files of a digest, where servers were given others before.
func next(digest string, given map[string]marked) marked {
	var newest marked
	for _, m := range given {
		if m.number > newest.number {
			newest = m
		}
	}
	if newest.digest == digest {
		return newest
	}
	return marked{newest.number + 1, digest}
}

// mark adds a mark to the files of a server.
func mark(files promcfg.Files, m marked) error {
	var config yaml.Node
	if err := yaml.Unmarshal(files[promcfg.ConfigFile], &config); err != nil {
		return fmt.Errorf("reading the rendered configuration: %w", err)
	}
	name := m.file()
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

// markIn is how a configuration is marked, nothing if it is not.
func markIn(config string) marked {
	found := markName.FindStringSubmatch(config)
	if found == nil {
		return marked{}
	}
	number, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		return marked{} // not of ours: there are not so many changes
	}
	return marked{number, found[2]}
}
