//go:build linux

package mover

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// newRecordWriter returns a writer that sorts in a file of the target without a name.
func (c *copier) newRecordWriter() *recordWriter {
	return &recordWriter{limit: c.hooks.runEntries, spill: func() (*os.File, error) {
		f, tmp, err := c.createRecordFile()
		if err == nil {
			c.discard(c.dst.fd, tmp)
		}
		return f, err
	}}
}

// createRecordFile creates a file with a temporary name in the target's root.
func (c *copier) createRecordFile() (f *os.File, tmp string, err error) {
	tmp, err = c.makeTemp(c.tree.top, func(name string) error {
		fd, err := openat(c.dst.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return f, tmp, err
}

// saveRecord gives the record its name after it is complete and on the device. A lack of space for it is not an error.
func (c *copier) saveRecord() error {
	err := c.writeRecord(c.twoPass.current)
	if kindOf(err) == kindNoSpace {
		c.twoPass.current, c.twoPass.saved = nil, nil
		c.warn("the target has no space for the record of verified files, so no file counts as unchanged after this pass")
		return nil
	}
	if err != nil {
		return &fault{target, "writing", recordName, err}
	}
	return nil
}

func (c *copier) writeRecord(w *recordWriter) error {
	if err := cmp.Or(w.err, c.checkOwned()); err != nil {
		return err
	}
	f, tmp, err := c.createRecordFile()
	if err != nil {
		return err
	}
	c.twoPass.saved, err = w.encode(f, c.twoPass.id)
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
		err = c.checkOwned()
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

// encode writes the record to a file. It returns the inodes of its files.
func (w *recordWriter) encode(f *os.File, id recordID) (*inodeSet, error) {
	bound, err := id.fingerprint(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	out, h := bufio.NewWriterSize(f, bufferSize), sha256.New()
	both := io.MultiWriter(out, h)
	b := append([]byte(recordMagic), bound[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(w.all))
	inodes := &inodeSet{}
	err = w.each(func(r *recorded) error {
		if r.hint&dirFlag == 0 {
			inodes.add(r.ino)
		}
		b = r.append(b)
		if len(b) < 32<<10 {
			return nil
		}
		_, err := both.Write(b)
		b = b[:0]
		return err
	})
	if err == nil {
		_, err = both.Write(b)
	}
	if err == nil {
		_, err = out.Write(h.Sum(nil))
	}
	if err == nil {
		err = out.Flush()
	}
	return inodes, err
}
