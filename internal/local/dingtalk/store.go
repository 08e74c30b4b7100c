package dingtalk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// store is a file of JSON lines and its content.
type store struct {
	messages []Message
	file     *os.File
}

func openStore(dir string) (*store, error) {
	path := filepath.Join(dir, "messages.jsonl")
	messages, err := readMessages(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the file of messages: %w", err)
	}
	return &store{messages: messages, file: file}, nil
}

// readMessages ends at the last whole line: a torn one was never answered for.
// The torn rest is cut off, lest the next message be glued to it.
func readMessages(path string) ([]Message, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading kept messages: %w", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if len(whole) < len(data) {
		if err := os.Truncate(path, int64(len(whole))); err != nil {
			return nil, fmt.Errorf("cutting off a torn message: %w", err)
		}
	}
	var messages []Message
	for line := range bytes.Lines(whole) {
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("reading message %d of %s: %w", len(messages)+1, path, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func (s *store) add(m Message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keeping a message: %w", err)
	}
	s.messages = append(s.messages, m)
	return nil
}

func (s *store) close() error {
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the file of messages: %w", err)
	}
	return nil
}
