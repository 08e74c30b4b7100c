package lint

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// keepsLabels are the functions whose result has the labels of their one vector.
func keepsLabels() []string {
	return []string{
		"abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "avg_over_time", "ceil", "changes", "clamp", "clamp_max", "clamp_min",
		"cos", "cosh", "count_over_time", "day_of_month", "day_of_week", "day_of_year", "days_in_month", "deg", "delta", "deriv",
		"double_exponential_smoothing", "exp", "floor", "histogram_avg", "histogram_count", "histogram_stddev", "histogram_stdvar",
		"histogram_sum", "hour", "idelta", "increase", "irate", "last_over_time", "ln", "log10", "log2", "mad_over_time", "max_over_time",
		"min_over_time", "minute", "month", "predict_linear", "present_over_time", "quantile_over_time", "rad", "rate", "resets", "round",
		"sgn", "sin", "sinh", "sort", "sort_by_label", "sort_by_label_desc", "sort_desc", "sqrt", "stddev_over_time", "stdvar_over_time",
		"sum_over_time", "tan", "tanh", "timestamp", "year",
	}
}

// call is a function.
func (i *inference) call(n *parser.Call) shape {
	args := i.arguments(n)
	switch name := n.Func.Name; {
	case n.Func.ReturnType == parser.ValueTypeScalar:
		return shape{scalar: true}
	case name == "vector":
		return vector(nil)
	case name == "absent" || name == "absent_over_time":
		return absent(n.Args[0])
	case name == "label_replace":
		return i.labelReplace(n, args[0])
	case name == "label_join":
		return i.labelJoin(n, args[0])
	case name == "histogram_quantile" || name == "histogram_fraction":
		return ofBuckets(onlyVector(args))
	case slices.Contains(keepsLabels(), name):
		return onlyVector(args)
	}
	i.wrong(n, "uses %s(), of which nobody can tell the labels before it runs; aggregate by (…) something simpler", n.Func.Name)
	return unknown()
}

// onlyVector is the argument that has labels. A function of time has none.
func onlyVector(args []shape) shape {
	for _, s := range args {
		if !s.scalar {
			return s
		}
	}
	return vector(nil)
}

// ofBuckets takes the label of buckets off.
func ofBuckets(s shape) shape {
	out := s.without(model.BucketLabel)
	out.key = out.may
	return out
}

// absent has the labels that its selector asks for by equality, each once, as
// Prometheus makes them up.
func absent(e parser.Expr) shape {
	if m, ok := e.(*parser.MatrixSelector); ok {
		e = m.VectorSelector
	}
	selector, ok := e.(*parser.VectorSelector)
	if !ok {
		return vector(nil)
	}
	var names []string
	seen := map[string]bool{}
	for _, m := range selector.LabelMatchers {
		switch {
		case m.Name == model.MetricNameLabel:
		case m.Type == labels.MatchEqual && !seen[m.Name]:
			seen[m.Name] = true
			if m.Value != "" {
				names = append(names, m.Name)
			}
		default:
			names = slices.DeleteFunc(names, func(n string) bool { return n == m.Name })
		}
	}
	return vector(names)
}

// labelReplace sets a label where an expression matches another one.
func (i *inference) labelReplace(n *parser.Call, s shape) shape {
	target, _ := literal(n.Args[1])
	value, _ := literal(n.Args[2])
	source, _ := literal(n.Args[3])
	pattern, _ := literal(n.Args[4])
	if source != "" && !s.unknown && !s.has(source) {
		i.wrong(n, "copies from label %q, which its series do not have; they have %s", source, s)
	}
	out := s.with(target)
	out.key = s.key
	if alwaysSets(s, value, source, pattern) {
		out.must[target] = true
	}
	return out
}

// alwaysSets tells whether each element has the label afterwards: because a
// constant is set on all of them, or a label that all of them have is copied.
func alwaysSets(s shape, value, source, pattern string) bool {
	if source == "" && value != "" && !strings.Contains(value, "$") {
		return slices.Contains([]string{"", ".*", "(.*)"}, pattern)
	}
	return s.must[source] && value == "$1" && slices.Contains([]string{"(.*)", "(.+)"}, pattern)
}

// labelJoin sets a label to the values of others.
func (i *inference) labelJoin(n *parser.Call, s shape) shape {
	target, _ := literal(n.Args[1])
	out := s.with(target)
	out.key = s.key
	for _, arg := range n.Args[3:] {
		source, _ := literal(arg)
		if !s.unknown && !s.has(source) {
			i.wrong(n, "joins label %q, which its series do not have; they have %s", source, s)
		}
		if s.must[source] {
			out.must[target] = true
		}
	}
	return out
}
