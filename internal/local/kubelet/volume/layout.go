package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Link makes a mount path lead to a folder that is shared or outlives the pod, and creates the folder.
func Link(mountPath, folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("creating volume folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(mountPath), 0o700); err != nil {
		return fmt.Errorf("creating mount path: %w", err)
	}
	if current, err := os.Readlink(mountPath); err == nil && current == folder {
		return nil
	}
	if err := os.Remove(mountPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing mount path: %w", err)
	}
	if err := os.Symlink(folder, mountPath); err != nil {
		return fmt.Errorf("linking mount path: %w", err)
	}
	return nil
}
