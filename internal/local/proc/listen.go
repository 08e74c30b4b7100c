package proc

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/prometheus/procfs"
)

// stateListen is the kernel's number for a socket that listens.
const stateListen = 0x0A

// Listener is one listening TCP socket.
type Listener struct {
	Address netip.AddrPort
	inode   uint64
}

// Listeners lists the listening TCP sockets of the machine.
func Listeners() ([]Listener, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("opening /proc: %w", err)
	}
	v4, err := fs.NetTCP() //nolint:staticcheck // asking over netlink is faster where sockets are very many, and takes a module more
	if err != nil {
		return nil, fmt.Errorf("listing sockets: %w", err)
	}
	// A machine without IPv6 has no such list.
	v6, err := fs.NetTCP6() //nolint:staticcheck // as above
	if err != nil {
		v6 = nil
	}
	var found []Listener
	for _, socket := range append(v4, v6...) {
		if socket.St != stateListen {
			continue
		}
		addr, ok := netip.AddrFromSlice(socket.LocalAddr)
		if !ok || socket.LocalPort > 65535 {
			continue
		}
		found = append(found, Listener{netip.AddrPortFrom(addr.Unmap(), uint16(socket.LocalPort)), socket.Inode})
	}
	return found, nil
}

// Free says whether a program could listen on the address, by doing so.
func Free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// Owner finds the process that listens on the address, there or on every
// address of the machine. It is best effort: the sockets of other users'
// processes cannot be seen.
func Owner(address netip.AddrPort) (Process, bool) {
	all, err := Listeners()
	if err != nil {
		return Process{}, false
	}
	for _, l := range all {
		if l.Address.Port() != address.Port() || (l.Address.Addr() != address.Addr() && !l.Address.Addr().IsUnspecified()) {
			continue
		}
		if p, ok := holder(l.inode); ok {
			return p, true
		}
	}
	return Process{}, false
}

func holder(inode uint64) (Process, bool) {
	all, err := procfs.AllProcs()
	if err != nil {
		return Process{}, false
	}
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, p := range all {
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue
		}
		for _, target := range targets {
			if strings.TrimSpace(target) == socket {
				return describe(p)
			}
		}
	}
	return Process{}, false
}
