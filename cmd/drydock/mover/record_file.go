//go:build linux

package mover

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// A file of a record has recordMagic, the fingerprint, the number of files, the files, and the CRC-32C of all that. Integers are big
// endian. The magic includes the version of the format. A record of another version is ignored, like a torn one: that costs only time.
const (
	recordMagic    = "drydock-pass-4\n\x00"
	recordHeadSize = len(recordMagic) + sha256.Size + 8
	recordedSize   = 8 + 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// save writes the record to a file, which has its name only when it is complete. It calls written, if not nil, before it gives the file its
// name. It needs no flush: after a crash of the node, the boot id is another one.
func (r *record) save(path string, written func()) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = r.encode(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && written != nil {
		written()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

func (r *record) encode(w io.Writer) error {
	out, sealed := bufio.NewWriterSize(w, bufferSize), crc32.New(castagnoli)
	both := io.MultiWriter(out, sealed)
	mark := r.id.fingerprint()
	b := append([]byte(recordMagic), mark[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(r.files)))
	for i := range r.files {
		if len(b) > 32<<10 {
			_, _ = both.Write(b) // Flush returns the error
			b = b[:0]
		}
		b = append(binary.BigEndian.AppendUint64(b, r.files[i].ino), r.files[i].state[:]...)
	}
	_, _ = both.Write(b)
	_, _ = out.Write(binary.BigEndian.AppendUint32(nil, sealed.Sum32()))
	return out.Flush()
}

var (
	errNoRecord      = errors.New("there is none")
	errForeignRecord = errors.New("it belongs to another operation, mover, version or boot of the node")
	errTornRecord    = errors.New("it is incomplete")
)

// loadRecord returns the record in a file. It fails if it cannot be trusted.
func loadRecord(path string, id recordID) (*record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return decodeRecord(bufio.NewReaderSize(f, bufferSize), st.Size(), id)
}

// decodeRecord allocates no memory for files before it has recognized the head.
func decodeRecord(r io.Reader, size int64, id recordID) (*record, error) {
	sealed := crc32.New(castagnoli)
	in := io.TeeReader(r, sealed)
	var head [recordHeadSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, errTornRecord
	}
	mark := id.fingerprint()
	if !bytes.Equal(head[:recordHeadSize-8], append([]byte(recordMagic), mark[:]...)) {
		return nil, errForeignRecord
	}
	body := size - int64(recordHeadSize) - crc32.Size
	count := body / recordedSize
	if body < 0 || body%recordedSize != 0 || binary.BigEndian.Uint64(head[recordHeadSize-8:]) != uint64(count) {
		return nil, errTornRecord
	}
	back := &record{id, make([]recorded, count)}
	var b [recordedSize]byte
	for i := range back.files {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, errTornRecord
		}
		back.files[i] = recorded{binary.BigEndian.Uint64(b[:]), [16]byte(b[8:])}
	}
	want := sealed.Sum32()
	if _, err := io.ReadFull(r, b[:crc32.Size]); err != nil || binary.BigEndian.Uint32(b[:]) != want {
		return nil, errTornRecord
	}
	return back, nil
}
