package kubelet

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"
	"sync"
)

// errNoAddress says that the pod range is used up.
var errNoAddress = errors.New("every address of the pod range is taken")

// addresses gives each pod an address of the range. A pod's home is the hash of its name, so that a pod that comes back
// has the address it had; when the home is taken, the next free one is used.
type addresses struct {
	prefix netip.Prefix

	mu    sync.Mutex
	owner map[netip.Addr]string
}

func newAddresses(prefix netip.Prefix) *addresses {
	return &addresses{prefix: prefix.Masked(), owner: map[netip.Addr]string{}}
}

// acquire reserves an address for a pod, known by its uid. The address it had before is preferred. Addresses for which
// taken is true are passed over.
func (a *addresses) acquire(uid, key, before string, taken func(netip.Addr) bool) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	free := func(addr netip.Addr) bool {
		_, owned := a.owner[addr]
		return !owned && !taken(addr)
	}
	if addr, err := netip.ParseAddr(before); err == nil && a.prefix.Contains(addr) && free(addr) {
		a.owner[addr] = uid
		return addr, nil
	}
	for i := range a.size() {
		if addr := a.nth(a.hash(key) + i); free(addr) {
			a.owner[addr] = uid
			return addr, nil
		}
	}
	return netip.Addr{}, errNoAddress
}

// release gives back what a pod holds.
func (a *addresses) release(uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr, owner := range a.owner {
		if owner == uid {
			delete(a.owner, addr)
		}
	}
}

// home returns the address that a pod has unless another pod took it.
func (a *addresses) home(key string) netip.Addr { return a.nth(a.hash(key)) }

func (a *addresses) hash(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum32() % a.size()
}

// size is the number of usable addresses: all but the first and the last.
func (a *addresses) size() uint32 { return 1<<(32-a.prefix.Bits()) - 2 }

func (a *addresses) nth(n uint32) netip.Addr {
	base := a.prefix.Addr().As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(base[:])+1+n%a.size())
	return netip.AddrFrom4(out)
}
