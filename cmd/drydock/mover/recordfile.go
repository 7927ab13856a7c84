//go:build linux

package mover

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// saveRecord gives the record its name after it is complete and on the device. A lack of space for it is not an error.
func (c *copier) saveRecord() error {
	err := c.writeRecord(c.twoPass.current)
	if kindOf(err) == kindNoSpace {
		c.twoPass.current = nil
		c.warn("the target has no space for the record of verified files, so no file counts as unchanged after this pass")
		return nil
	}
	if err != nil {
		return &fault{target, "writing", recordName, err}
	}
	return nil
}

func (c *copier) writeRecord(r *record) error {
	sort.Slice(r.entries, func(i, j int) bool { return r.entries[i].ino < r.entries[j].ino })
	var f *os.File
	tmp, err := c.makeTemp(c.tree.top, func(name string) error {
		fd, err := openat(c.dst.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = r.encode(f, c.twoPass.id)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && c.hooks.recording != nil {
		c.hooks.recording()
	}
	if err == nil {
		err = ignoringEINTR(func() error { return unix.Renameat(c.dst.fd, tmp, c.dst.fd, recordName) })
	}
	if err != nil {
		c.discard(c.dst.fd, tmp)
		return err
	}
	return ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) })
}

func (r *record) encode(f *os.File, id recordID) error {
	bound, err := id.fingerprint(int(f.Fd()))
	if err != nil {
		return err
	}
	out, h := bufio.NewWriterSize(f, bufferSize), sha256.New()
	both := io.MultiWriter(out, h)
	b := append([]byte(recordMagic), bound[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(r.entries)))
	for i := range r.entries {
		e := &r.entries[i]
		b = binary.BigEndian.AppendUint64(b, e.ino)
		b = append(append(b, e.state[:]...), e.content[:]...)
		if len(b) >= 32<<10 {
			if _, err := both.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if _, err := both.Write(b); err != nil {
		return err
	}
	if _, err := out.Write(h.Sum(nil)); err != nil {
		return err
	}
	return out.Flush()
}

var (
	errNoRecord      = errors.New("there is no record")
	errForeignRecord = errors.New("it belongs to another operation, version or boot of the node")
	errTornRecord    = errors.New("it is incomplete")
)

// readRecord returns the record in the directory. It fails if there is none that can be trusted.
func readRecord(dirfd int, id recordID) (*record, error) {
	fd, err := openat(dirfd, recordName, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoRecord, err)
	}
	f := os.NewFile(uintptr(fd), recordName)
	defer f.Close() // read only
	st, err := fstat(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return nil, errForeignRecord
	}
	bound, err := id.fingerprint(fd)
	if err != nil {
		return nil, err
	}
	return decodeRecord(f, st.Size, bound)
}

// decodeRecord allocates no memory for entries before it has recognized the head.
func decodeRecord(f io.Reader, size int64, bound sum) (*record, error) {
	h := sha256.New()
	buffered := bufio.NewReaderSize(f, bufferSize)
	in := io.TeeReader(buffered, h)
	head := make([]byte, recordHeadSize)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, errTornRecord
	}
	if !bytes.HasPrefix(head, []byte(recordMagic)) || !bytes.Equal(head[len(recordMagic):][:sha256.Size], bound[:]) {
		return nil, errForeignRecord
	}
	body := size - recordHeadSize - sha256.Size
	count := body / recordedSize
	if body < 0 || body%recordedSize != 0 || binary.BigEndian.Uint64(head[recordHeadSize-8:]) != uint64(count) {
		return nil, errTornRecord
	}
	r := &record{entries: make([]recorded, count)}
	var b [recordedSize]byte
	for i := range r.entries {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, errTornRecord
		}
		e := &r.entries[i]
		e.ino = binary.BigEndian.Uint64(b[:8])
		copy(e.state[:], b[8:24])
		copy(e.content[:], b[24:])
	}
	var sealed sum
	if _, err := io.ReadFull(buffered, sealed[:]); err != nil || sealed != sum(h.Sum(nil)) {
		return nil, errTornRecord
	}
	return r, nil
}
