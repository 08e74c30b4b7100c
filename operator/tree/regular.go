package tree

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openRegular opens a file to read. What is none, such as a named pipe, would
// keep a reader waiting for as long as nobody writes to it.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
