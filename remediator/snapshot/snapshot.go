// Package snapshot is a decision's inputs as a file, which a person can write, and
// what was decided as a text that a person can read.
//
// It decides nothing and reads no cluster: remediator/policy does the one,
// remediator/signal the other.
package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// APIVersion and Kind stand at the beginning of every snapshot. What a field means
// never changes under one version.
const (
	APIVersion = "snapshot.pharos.dev/v1"
	Kind       = "Snapshot"
)

// MaxBytes bounds a snapshot, in bytes. One of 100,000 machines has about 35 MB.
const MaxBytes = 512 << 20

// Snapshot is everything that a decision rests on. The same snapshot gives the
// same decision, wherever and whenever.
type Snapshot struct {
	metav1.TypeMeta `json:",inline"`
	// Now is the instant of the decision, by the clock of the remediator.
	Now time.Time `json:"now"`
	// Policies are those that were in force.
	Policies        []api.RemediationPolicy `json:"policies,omitempty"`
	policy.Snapshot `json:",inline"`
}

// Decide does what the remediator did with the snapshot.
func (s Snapshot) Decide() policy.Plan { return policy.Decide(s.Policies, s.Snapshot, s.Now) }

// Read reads a snapshot that is YAML or JSON, compressed by zstd or not. It refuses
// fields that it does not know, because one that is misspelt would otherwise be unknown
// to the decision, and what contradicts itself, with all such places in one error.
func Read(r io.Reader) (Snapshot, error) {
	raw, err := content(r)
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading a snapshot: %w", err)
	}
	if len(raw) > MaxBytes {
		return Snapshot{}, fmt.Errorf("reading a snapshot: it is larger than %d MiB", MaxBytes>>20)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		if raw, err = yaml.YAMLToJSONStrict(raw); err != nil {
			return Snapshot{}, fmt.Errorf("reading a snapshot: it is no YAML: %w", err)
		}
	}
	var s Snapshot
	if err := json.Unmarshal(raw, &s.TypeMeta); err == nil && (s.APIVersion != APIVersion || s.Kind != Kind) {
		return Snapshot{}, fmt.Errorf("reading a snapshot: it is %q of %q, where %q of %q is read%s", s.Kind, s.APIVersion, Kind, APIVersion, elsewhere(s.TypeMeta))
	}
	strict, err := kjson.UnmarshalStrict(raw, &s)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Snapshot{}, fmt.Errorf("reading a snapshot: %w", err)
	}
	if err := s.validate(); err != nil {
		return Snapshot{}, fmt.Errorf("reading a snapshot:\n%w", err)
	}
	return s, nil
}

// elsewhere says what to do with a snapshot of another version.
func elsewhere(t metav1.TypeMeta) string {
	group, _, _ := strings.Cut(APIVersion, "/")
	if t.Kind == Kind && strings.HasPrefix(t.APIVersion, group+"/") {
		return ": another version of pharos wrote it, which can read it"
	}
	return ""
}

// compressed is how a file that zstd made begins (RFC 8878, 3.1.1).
var compressed = []byte{0x28, 0xB5, 0x2F, 0xFD}

// content is what there is to be read, and no more of it than one byte above MaxBytes.
func content(r io.Reader) ([]byte, error) {
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(len(compressed))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(start, compressed) {
		return io.ReadAll(io.LimitReader(buffered, MaxBytes+1))
	}
	z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	raw, err := io.ReadAll(io.LimitReader(z, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("it is compressed, and cannot be read to its end: %w", err)
	}
	return raw, nil
}

// Write writes a snapshot as JSON, which is YAML, too.
func Write(w io.Writer, s Snapshot) error {
	s.APIVersion, s.Kind = APIVersion, Kind
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	return nil
}
