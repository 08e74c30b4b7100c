package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/rules"
)

// CheckOwn refuses a render without rules, or without a contract, of the team's own where
// the last render had them or the Federation names them: that is what a forgotten flag
// looks like, and who applies the tree takes them away from every server.
func (p Plan) CheckOwn(own ownrules.Set, f Fleet) error {
	given := own.Names()
	hasContract := func(files []string) bool { return slices.Contains(files, rules.ContractFile) }
	hasRules := func(files []string) bool {
		return slices.ContainsFunc(files, func(name string) bool { return name != rules.ContractFile })
	}
	var errs []error
	if hasRules(p.Own) && !hasRules(given) {
		errs = append(errs, fmt.Errorf("the tree has rules of your own (%s), and none are given: they would be taken away from every server; "+
			"give them with --rules DIR, or say with --no-rules that they are to go", strings.Join(p.Own, ", ")))
	}
	if hasContract(p.Own) && !hasContract(given) {
		errs = append(errs, errors.New("the tree has a contract of your own, and none is given: what it lets cross would cross no more; "+
			"give it with --contract FILE, or say with --no-rules that it is to go"))
	}
	if named := f.Federation.Spec.Rules; named != nil && len(given) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: spec.rules: names ConfigMaps, which are in a cluster and not read here, and an operator would run what is in them; "+
			"give the same files with --rules DIR and --contract FILE, or say with --no-rules that none are wanted", f.At))
	}
	return errors.Join(errs...)
}
