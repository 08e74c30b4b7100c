package rules

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// ownPrefix begins the names of the rule files that a team has beside those that are
// built in, so that none of them takes another's place.
const ownPrefix = "own-"

// WithOwn is the contract with rule files that a team has of its own beside those
// that are built in, by tier and name. Whoever calls it has checked them
// (lint.Own): they are given to servers as they are.
func (c Contract) WithOwn(files map[Tier]map[string][]byte) Contract {
	c.own = map[Tier]map[string][]byte{}
	for tier, all := range files {
		c.own[tier] = map[string][]byte{}
		for name, content := range all {
			c.own[tier][ownPrefix+name] = content
		}
	}
	return c
}

// addOwn adds the team's files of a tier.
func (c Contract) addOwn(t Tier, files map[string][]byte) { maps.Copy(files, c.own[t]) }

// OwnBeyond refuses rules of the team's own that look back farther than a server of a
// tier is sure to have, as Reach does not know them. Files are named from the folder of
// the tiers on. The advice gets how far back the rule looks.
func (c Contract) OwnBeyond(t Tier, sure time.Duration, advice func(time.Duration) string) error {
	return c.eachOwn(t, func(expr string) (string, error) {
		back, err := reach(expr)
		if err != nil || back <= sure {
			return "", err
		}
		return advice(back), nil
	})
}

// OwnWithin refuses rules of the team's own with a window that holds too few samples at
// an interval, as Render does not know them. Files are named from the folder of the
// tiers on.
func (c Contract) OwnWithin(t Tier, interval time.Duration) error {
	return c.eachOwn(t, func(expr string) (string, error) {
		shortest, has, err := shortestWindow(expr)
		if err != nil || !has || shortest >= fewest*interval {
			return "", err
		}
		return fmt.Sprintf("looks back over %s, which must hold %d intervals of %s, or it is empty now and then and nobody sees that; look back over %s at least",
			model.Duration(shortest), fewest, model.Duration(interval), model.Duration(fewest*interval)), nil
	})
}

// eachOwn tells what is wrong with each expression of the team's rules of a tier, by
// its file and line.
func (c Contract) eachOwn(t Tier, wrong func(expr string) (string, error)) error {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(c.own[t])) {
		var doc yaml.Node
		if err := yaml.Unmarshal(c.own[t][name], &doc); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		for _, group := range Descend(&doc, "groups").Content {
			for _, rule := range Descend(group, "rules").Content {
				expr := Descend(rule, "expr")
				text, err := wrong(expr.Value)
				if err != nil {
					return fmt.Errorf("reading line %d of %s: %w", expr.Line, name, err)
				}
				if text != "" {
					problems = append(problems, Problem{File: path.Join(string(t), strings.TrimPrefix(name, ownPrefix)), Line: expr.Line, Text: text})
				}
			}
		}
	}
	return problems.Err()
}

func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) }
