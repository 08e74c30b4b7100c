package promcfg

import (
	"bytes"
	"crypto/sha256"
)

const (
	// jobsKey is the line before the jobs of a rendered configuration, jobMark how
	// each of them begins.
	jobsKey = "scrape_configs:\n"
	jobMark = "  - "
)

// lightened is a configuration without the jobs that were found good before.
type lightened struct {
	raw []byte
	// jobs are the digests of those that it has.
	jobs [][sha256.Size]byte
}

// lighten leaves out of a configuration that Marshal made the jobs that were
// accepted beside the same defaults. Whether jobs are called the same is seen
// only by looking at all of them: a configuration in which two are stays whole,
// as does one of another make.
func lighten(raw []byte) lightened {
	whole := lightened{raw: raw}
	head, rest, found := bytes.Cut(raw, []byte("\n"+jobsKey))
	if !found || !bytes.HasPrefix(raw, []byte(renderedBy)) {
		return whole
	}
	defaults := defaultsOf(head)
	out := lightened{raw: append(bytes.Clone(head), "\n"...)}
	var left []byte
	names := map[string]bool{}
	for len(rest) > 0 && bytes.HasPrefix(rest, []byte(jobMark)) {
		job := rest[:itemEnd(rest)]
		rest = rest[len(job):]
		name, _, _ := bytes.Cut(job, []byte("\n"))
		if names[string(name)] {
			return whole
		}
		names[string(name)] = true
		digest := sha256.Sum256(append(bytes.Clone(defaults), job...))
		// A job with files of targets depends on what is beside it.
		if isAccepted(digest) && !bytes.Contains(job, []byte("file_sd_configs:")) {
			continue
		}
		left = append(left, job...)
		out.jobs = append(out.jobs, digest)
	}
	if len(left) > 0 {
		out.raw = append(append(out.raw, jobsKey...), left...)
	}
	out.raw = append(out.raw, rest...)
	return out
}

// itemEnd is where the first item of a list ends: at the next one, or where the
// list does. What an item holds is indented further.
func itemEnd(list []byte) int {
	for at := 0; ; {
		next := bytes.IndexByte(list[at:], '\n')
		if next < 0 {
			return len(list)
		}
		at += next + 1
		line := list[at:]
		if len(line) == 0 || line[0] != ' ' && line[0] != '\n' || bytes.HasPrefix(line, []byte(jobMark)) {
			return at
		}
	}
}

// defaultsOf is the part of a configuration's head that jobs depend on: all but
// the labels that tell its server from others.
func defaultsOf(head []byte) []byte {
	var out []byte
	labels := false
	for line := range bytes.Lines(head) {
		if labels && bytes.HasPrefix(line, []byte("    ")) {
			continue
		}
		labels = bytes.HasPrefix(line, []byte("  external_labels:"))
		out = append(out, line...)
	}
	return out
}
