package fleettest

import (
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/pharos-fleet/pharos/rules"
)

// Sources that are named in the contract and are not one job each.
const (
	everyJob    = "every job"
	itself      = "prometheus itself"
	stateSource = "state"
)

// rawSeries is one series that an edge scrapes.
type rawSeries struct {
	labels labels.Labels
	// target is what is scraped together, restarts together and is missed together.
	target string
	value  func(step int) float64
}

// rawOf are all series that an edge server scrapes: those that the contract
// declares of an edge, of the clusters of its shard.
func (w *World) rawOf(e *edgeServer) []*rawSeries {
	var out []*rawSeries
	for _, raw := range w.contract.Raw {
		switch {
		case raw.Tier != rules.Edge && raw.Tier != "every":
		case raw.Name == "up":
			out = append(out, w.ups(e)...)
		case raw.Source == itself:
			out = append(out, w.series(raw, "edge", e.name(), nil, nil)...)
		case !slices.Contains(raw.Labels, "cluster"):
			if slices.ContainsFunc(e.clusters(), func(c Cluster) bool { return c.Name == rules.MetaCluster }) {
				out = append(out, w.series(raw, raw.Source, e.cell.Name, nil, nil)...)
			}
		default:
			for _, c := range e.clusters() {
				out = append(out, w.ofCluster(e, c, raw)...)
			}
		}
	}
	return out
}

// clusters are those that the edge server's shard watches.
func (e *edgeServer) clusters() []Cluster {
	var out []Cluster
	for i, c := range e.cell.Clusters {
		if uint(i)%e.cell.Shards == e.shard {
			out = append(out, c)
		}
	}
	return out
}

// ofCluster are the series of one name of one cluster, from each server that
// tells them.
func (w *World) ofCluster(e *edgeServer, c Cluster, raw rules.Raw) []*rawSeries {
	if c.Unwatched && raw.Source == stateSource && raw.Name != "pharos_cluster_up" && raw.Name != "pharos_cluster_info" {
		return nil
	}
	var out []*rawSeries
	for _, entity := range w.entities(c, raw) {
		for _, instance := range instances(raw.Source, entity["node"]) {
			out = append(out, w.series(raw, raw.Source, e.cell.Name+"/"+c.Name+"/"+instance, entity, &c)...)
		}
	}
	return out
}

// ups are the series up of all targets of an edge server.
func (w *World) ups(e *edgeServer) []*rawSeries {
	var out []*rawSeries
	add := func(job, instance, cluster string) {
		target := job + "/" + instance
		out = append(out, &rawSeries{
			labels: labels.FromMap(present(map[string]string{"__name__": "up", "job": job, "instance": instance, "cluster": cluster})),
			value: func(step int) float64 {
				if w.missed(e, target, step) {
					return 0
				}
				return 1
			},
		})
	}
	add("edge", e.name(), "")
	sources := map[string]bool{}
	for _, raw := range w.contract.Raw {
		if raw.Tier == rules.Edge && slices.Contains(raw.Labels, "cluster") {
			sources[raw.Source] = slices.Contains(raw.Labels, "node") && raw.Source != stateSource
		}
	}
	for source, ofNodes := range sources {
		for _, c := range e.clusters() {
			nodes := []string{""}
			if ofNodes {
				nodes = c.nodes()
			}
			for _, node := range nodes {
				for _, instance := range instances(source, node) {
					add(source, e.cell.Name+"/"+c.Name+"/"+instance, c.Name)
				}
			}
		}
	}
	return out
}

// instances are the servers of a source in a cluster: more than one where real
// clusters have more than one.
func instances(source, node string) []string {
	switch {
	case source == stateSource:
		return []string{"agent"}
	case source == "etcd":
		return []string{"etcd-0", "etcd-1", "etcd-2"}
	case source == "kube-apiserver":
		return []string{"api-0", "api-1"}
	case node != "":
		return []string{node}
	}
	return []string{source + "-0"}
}

// series are the series of one declared name about one entity, as one instance
// tells them: a histogram has several.
func (w *World) series(raw rules.Raw, source, instance string, entity map[string]string, c *Cluster) []*rawSeries {
	job := source
	own := map[string]string{"job": job, "instance": instance}
	var out []*rawSeries
	for _, more := range combinations(raw, entity) {
		all := map[string]string{"__name__": raw.Name}
		for _, set := range []map[string]string{entity, more, own} {
			for name, v := range set {
				if name == "job" || name == "instance" || slices.Contains(raw.Labels, name) {
					all[name] = v
				}
			}
		}
		all = present(all)
		target := job + "/" + instance
		if raw.Kind != rules.Histogram {
			out = append(out, &rawSeries{labels: labels.FromMap(all), target: target, value: w.valueOf(raw, all, target, c)})
			continue
		}
		out = append(out, w.histogram(raw.Name, all, target)...)
	}
	return out
}

// bounds are the buckets of every histogram of a world, among them those that
// rules read.
func bounds() []string { return []string{"0.001", "0.1", "0.4", "1", "5", "30", "+Inf"} }

func (w *World) histogram(name string, all map[string]string, target string) []*rawSeries {
	rate := 1 + 9*w.share("rate", labels.FromMap(all).String())
	count := w.counter(target, func() float64 { return rate })
	var out []*rawSeries
	of := func(suffix, le string, share func() float64) {
		set := present(map[string]string{"le": le})
		maps.Copy(set, all)
		set["__name__"] = name + suffix
		out = append(out, &rawSeries{labels: labels.FromMap(set), target: target, value: func(step int) float64 {
			return math.Floor(count(step) * share())
		}})
	}
	for i, le := range bounds() {
		of("_bucket", le, func() float64 { return w.within(target, i) })
	}
	of("_count", "", func() float64 { return 1 })
	of("_sum", "", func() float64 { return 0.01 })
	return out
}

// within is the share of what a target does that is in a bucket. Where all is
// well all but a hundredth is within the first.
func (w *World) within(target string, bucket int) float64 {
	switch {
	case bucket == len(bounds())-1:
		return 1
	case w.sick(target, "slow"):
		return float64(bucket+1) / float64(len(bounds()))
	}
	return 1 - 0.01*math.Pow(10, -float64(bucket))
}

// counter counts since the target last started, at a rate per second.
func (w *World) counter(target string, rate func() float64) func(int) float64 {
	every := 30 + int(20*w.share("restart", target))
	first := int(float64(every) * w.share("first", target))
	return func(step int) float64 {
		since := step + 1
		if w.Trouble.Restarts {
			since = (step+first)%every + 1
		}
		return rate() * float64(since) * w.Interval.Seconds()
	}
}

// scraped is what an edge server gets of all its targets now.
func (w *World) scraped(e *edgeServer) []Sample {
	if w.Trouble.dead(e) {
		return nil
	}
	at := w.Now()
	out := make([]Sample, 0, len(e.raw))
	for _, r := range e.raw {
		if r.target != "" && w.missed(e, r.target, w.step) {
			continue
		}
		value := r.value(w.step)
		if math.IsNaN(value) {
			continue // it is not told now
		}
		out = append(out, Sample{Labels: r.labels, At: at, Value: value})
	}
	return out
}

// missed tells whether an edge server's scrape of a target gets no answer. Each
// server of a pair misses others.
func (w *World) missed(e *edgeServer, target string, step int) bool {
	return !strings.HasPrefix(target, "edge/") && w.share(e.name(), target, strconv.Itoa(step)) < w.Trouble.Gaps
}

func (w *World) sick(what ...string) bool {
	return w.share(append([]string{"sick"}, what...)...) < w.Trouble.Sick
}

// share is a number from 0 to 1 that is the same in every run of one seed.
func (w *World) share(of ...string) float64 {
	h := fnv.New64a()
	for _, s := range append(of, strconv.FormatUint(w.Seed, 10)) {
		_, _ = h.Write([]byte(s)) // never fails
		_, _ = h.Write([]byte{0})
	}
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// ofItself is what a cascade or central scrapes of itself.
func (w *World) ofItself(job string, at time.Time) []Sample {
	var out []Sample
	for _, raw := range w.contract.Raw {
		if raw.Source != itself {
			continue
		}
		for _, r := range w.series(raw, job, job, nil, nil) {
			out = append(out, Sample{Labels: r.labels, At: at, Value: r.value(w.step)})
		}
	}
	return out
}

func present(set map[string]string) map[string]string {
	for name, v := range set {
		if v == "" {
			delete(set, name)
		}
	}
	return set
}
