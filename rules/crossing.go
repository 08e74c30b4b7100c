package rules

import "slices"

// OrBuiltIn is the contract, or the one that is built in where there is none.
func (c *Contract) OrBuiltIn() (Contract, error) {
	if c == nil {
		return Load()
	}
	return *c, nil
}

// Labels are all labels that series of a link into the tier may have, sorted:
// the declared ones, those that say who told, and a histogram's le.
func (c Contract) Labels(to Tier) []string { return labelsOf(c.Crossing(to)) }

// Kept are the names and labels of everything recorded that a tier holds,
// whichever tier recorded it, both sorted.
func (c Contract) Kept(at Tier) (names, labels []string) {
	var held []Series
	for _, s := range c.Series {
		if s.From.rank() <= at.rank() && s.To.rank() >= at.rank() {
			held = append(held, s)
			names = append(names, s.Kind.Names(s.Name)...)
		}
	}
	slices.Sort(names)
	return names, labelsOf(held)
}

func labelsOf(series []Series) []string {
	out := append(Tellers(), "le")
	for _, s := range series {
		out = append(out, s.Labels...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
