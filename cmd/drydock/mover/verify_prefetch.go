//go:build linux

package mover

import "golang.org/x/sys/unix"

// Limits of the files that are read ahead.
const (
	prefetchFiles = 32
	prefetchBytes = 4 << 20
)

// prefetcher reads small files of the target ahead of a worker. Verification reads each file from the device. One after the
// other, each would cost a wait for the device.
//
// It drops the contents from memory and asks the kernel to read them again. So they come from the device, as without it.
type prefetcher struct {
	next  int             // the first entry that was not considered
	fresh map[string]bool // the names that were read ahead
}

// advance reads ahead if the worker is at entry i and has caught up. It skips entries that will not be read. A failure does not
// matter: such a file is read later.
func (p *prefetcher) advance(v *verifier, at pair, entries []entry, i int) {
	if i < p.next {
		return
	}
	p.next = i
	clear(p.fresh)
	bytes := int64(0)
	for files := 0; p.next < len(entries) && files < prefetchFiles && bytes < prefetchBytes; p.next++ {
		e := &entries[p.next]
		if !e.meta.isRegular() || e.meta.size == 0 || e.meta.size >= bigFileMin || e.meta.nlink != 1 || e.isKnown() ||
			!v.comparesContents(at.dir, e, nil) {
			continue
		}
		if prefetch(at.dst, e.name) == nil {
			if p.fresh == nil {
				p.fresh = map[string]bool{}
			}
			p.fresh[e.name] = true
		}
		files++
		bytes += e.meta.size
	}
}

func (p *prefetcher) isFresh(e *entry) bool { return p.fresh[e.name] }

func prefetch(dirfd int, name string) error {
	fd, err := openat(dirfd, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := dropPages(fd); err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED) })
}
