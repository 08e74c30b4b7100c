package rules

import (
	"maps"
	"strings"
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

func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) }
