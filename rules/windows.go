package rules

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// fewest is how many intervals the window of a range must hold. A rate needs two
// samples; with four a scrape may fail, and another be late.
const fewest = 4

// checkWindows refuses an interval at which a rule would look back over too few
// samples. Windows are not scaled as for is: what they are long is what the
// number means, and part of its name (rate5m, increase10m). A rate whose window
// is too short is absent now and then, and an alert on it never fires: nobody
// would see that.
func checkWindows(groups *rulefmt.RuleGroups, interval time.Duration) error {
	var wrong []error
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			shortest, ok, err := shortestWindow(r.Expr)
			switch {
			case err != nil:
				wrong = append(wrong, fmt.Errorf("reading the expression of %s in %s: %w", r.Record+r.Alert, g.Name, err))
			case ok && shortest < fewest*interval:
				wrong = append(wrong, fmt.Errorf(
					"interval %s: %s in %s looks back over %s, which must hold %d intervals; make the interval %s at most",
					interval, r.Record+r.Alert, g.Name, shortest, fewest, shortest/fewest))
			}
		}
	}
	return errors.Join(wrong...)
}

// shortestWindow is the shortest range that an expression looks back over, if it
// has any.
func shortestWindow(expr string) (time.Duration, bool, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return 0, false, err
	}
	var shortest time.Duration
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		var window time.Duration
		switch n := n.(type) {
		case *parser.MatrixSelector:
			window = n.Range
		case *parser.SubqueryExpr:
			window = n.Range
		}
		if window > 0 && (shortest == 0 || window < shortest) {
			shortest = window
		}
		return nil
	})
	return shortest, shortest > 0, nil
}

// Reach is how far back the rules of a tier look, at the most: a server that keeps
// less never has all of what such a rule is about, and an alert on it never fires.
func Reach(t Tier) (time.Duration, error) {
	first := sync.OnceValues(func() (time.Duration, error) { return farthest(t) })
	f, _ := reaches.LoadOrStore(t, first)
	return f.(func() (time.Duration, error))()
}

func farthest(t Tier) (time.Duration, error) {
	groups, err := Groups(t)
	if err != nil {
		return 0, err
	}
	var farthest time.Duration
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			back, err := reach(r.Expr)
			if err != nil {
				return 0, fmt.Errorf("reading the expression of %s in %s: %w", r.Record+r.Alert, g.Name, err)
			}
			farthest = max(farthest, back)
		}
	}
	return farthest, nil
}

// reach is how long ago the oldest sample may be that an expression asks for:
// ranges, subqueries around them and offsets add up.
func reach(expr string) (time.Duration, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return 0, err
	}
	var farthest time.Duration
	parser.Inspect(parsed, func(n parser.Node, around []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		back := selector.OriginalOffset
		for _, outer := range around {
			switch outer := outer.(type) {
			case *parser.MatrixSelector:
				back += outer.Range
			case *parser.SubqueryExpr:
				back += outer.Range + outer.OriginalOffset
			}
		}
		farthest = max(farthest, back)
		return nil
	})
	return farthest, nil
}
