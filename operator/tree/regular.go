package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var errIrregular = errors.New("is no regular file")

// openRegular opens a file to read, of the system or of one folder. What is no
// file, such as a named pipe, would keep a reader waiting for as long as nobody
// writes to it.
func openRegular(open func(name string, flag int, perm fs.FileMode) (*os.File, error), name string) (*os.File, error) {
	f, err := open(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", name, errIrregular)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// readRegular reads the whole of a file.
func readRegular(open func(name string, flag int, perm fs.FileMode) (*os.File, error), name string) ([]byte, error) {
	f, err := openRegular(open, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return io.ReadAll(f)
}
