package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Audit keeps what is taken away from the hub, a line of JSON for each record, in a
// file for each day of UTC. It never takes anything away itself.
type Audit struct {
	dir string
	// written are the records that stand in a file and may still be in the hub, by
	// version: what cannot be taken away is not written in every round.
	written map[string]bool
}

// NewAudit takes a folder that is there.
func NewAudit(dir string) *Audit { return &Audit{dir, map[string]bool{}} }

// keep returns when all records stand on the disk. After a crash, some may stand there twice.
func (a *Audit) keep(all []*api.Remediation, now time.Time) error {
	var lines []byte
	for _, rem := range all {
		if a.written[version(rem)] {
			continue
		}
		line, err := line(rem)
		if err != nil {
			return fmt.Errorf("writing remediation %s into the audit log: %w", rem.Name, err)
		}
		lines = append(lines, line...)
	}
	if len(lines) == 0 {
		return nil
	}
	path := filepath.Join(a.dir, now.UTC().Format("remediations-2006-01-02.jsonl"))
	if err := add(path, lines); err != nil {
		return fmt.Errorf("writing %d remediations into the audit log: %w", len(all), err)
	}
	clear(a.written) // what is not meant to go any more is written anew if it is again
	for _, rem := range all {
		a.written[version(rem)] = true
	}
	return nil
}

func version(rem *api.Remediation) string { return string(rem.UID) + "/" + rem.ResourceVersion }

// line is the whole record, with what a list leaves out.
func line(rem *api.Remediation) ([]byte, error) {
	whole := rem.DeepCopy()
	whole.SetGroupVersionKind(api.GroupVersion.WithKind("Remediation"))
	whole.ManagedFields = nil
	raw, err := json.Marshal(whole)
	return append(raw, '\n'), err
}

// add appends to a file, past what a crash may have left half written, and has it on
// the disk, name and all, when it returns.
func add(path string, lines []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if end > 0 {
		if _, err := f.ReadAt(last, end-1); err != nil {
			return err
		}
	}
	if last[0] != '\n' {
		lines = append([]byte{'\n'}, lines...)
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncFolder(filepath.Dir(path)))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
