package lint

import "github.com/pharos-fleet/pharos/rules"

// BuiltIn is the contract and the rules that are built in, named as in the repository.
func BuiltIn() (Input, error) {
	raw, err := rules.ContractSource()
	if err != nil {
		return Input{}, err
	}
	in := Input{Contract: File{Name: "rules/" + rules.ContractFile, Content: raw}, Rules: map[rules.Tier][]File{}}
	for _, tier := range rules.Tiers() {
		for _, subject := range rules.Subjects(tier) {
			raw, err := rules.Source(tier, subject)
			if err != nil {
				return Input{}, err
			}
			in.Rules[tier] = append(in.Rules[tier], File{Name: "rules/" + rules.SourcePath(tier, subject), Content: raw})
		}
	}
	return in, nil
}
