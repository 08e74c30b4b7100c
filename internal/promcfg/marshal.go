package promcfg

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/utils/lru"
)

const (
	// noJobs is how an empty list of jobs is written.
	noJobs = "scrape_configs: []\n"
	// maxJobs is more than the different jobs of all tiers are, and maxJob more
	// than a job has that does not name the cells of a fleet.
	maxJobs, maxJob = 10_000, 16 << 10
)

// Marshal renders the configuration. The same Config gives the same bytes.
//
// Jobs are rendered one by one: those of one edge are those of nearly every
// other, and are written once.
func (c Config) Marshal() ([]byte, error) {
	frame := c
	frame.ScrapeConfigs = []ScrapeConfig{}
	raw, err := Marshal(frame)
	if err != nil || len(c.ScrapeConfigs) == 0 {
		return raw, err
	}
	var jobs bytes.Buffer
	jobs.WriteString(jobsKey)
	for _, job := range c.ScrapeConfigs {
		item, err := jobItem(job)
		if err != nil {
			return nil, err
		}
		jobs.Write(item)
	}
	head, tail, found := bytes.Cut(raw, []byte("\n"+noJobs))
	if !found {
		return nil, fmt.Errorf("encoding yaml: an empty list of jobs is not written as %q", noJobs)
	}
	return bytes.Join([][]byte{head, []byte("\n"), jobs.Bytes(), tail}, nil), nil
}

// written are jobs as they are written, by everything that is in them.
var written = lru.New(maxJobs)

// jobItem is a job as an item of the list of jobs. Nothing may change it.
func jobItem(job ScrapeConfig) ([]byte, error) {
	key, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("encoding job %q: %w", job.JobName, err)
	}
	if known, is := written.Get(string(key)); is {
		return known.([]byte), nil
	}
	raw, err := Marshal(struct {
		Jobs []ScrapeConfig `yaml:"scrape_configs"`
	}{[]ScrapeConfig{job}})
	if err != nil {
		return nil, err
	}
	_, item, _ := bytes.Cut(raw, []byte(jobsKey))
	if len(item) <= maxJob {
		written.Add(string(key), item)
	}
	return item, nil
}
