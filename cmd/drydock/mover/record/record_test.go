//go:build linux

package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
)

// A record has every added file, in memory and after it was written to a file.
func TestRecordFindsEveryAddedFile(t *testing.T) {
	var r recorder
	metas := make([]fsys.Meta, 5000)
	for i := range metas {
		metas[i] = fsys.Meta{Ino: uint64(i*7919%5000) * 3, Size: int64(i), Mode: unix.S_IFREG | 0o644, Nlink: 1}
		r.Add(&metas[i], &fsys.Meta{Ino: uint64(i)}, i%2 == 0, 1)
	}
	id := recordID{Token: "t", boot: "b", source: 1, target: 2}
	inMemory := (&Trust{Id: id, Current: &r, clock: time.Minute}).Record()
	path := filepath.Join(t.TempDir(), "record")
	must(t, inMemory.Save(path, nil))
	loaded, err := loadRecord(path, id)
	must(t, err)
	for _, back := range []*Record{inMemory, loaded} {
		if back.clock != time.Minute {
			t.Errorf("the clock was %s", back.clock)
		}
		for i := range metas {
			if plain, ok := back.find(&metas[i], &fsys.Meta{Ino: uint64(i)}); !ok || plain != (i%2 == 0) {
				t.Fatal(i)
			}
			if _, ok := back.find(&metas[i], &fsys.Meta{Ino: uint64(i), CtimeNsec: 1}); ok {
				t.Fatal(i)
			}
			if at := back.Search(metas[i].Ino, i); at < 0 || back.Search(metas[i].Ino, at) != at {
				t.Fatal(i)
			}
		}
		if _, ok := back.find(&fsys.Meta{Ino: 7}, &fsys.Meta{}); ok || back.Search(15_000, 0) >= 0 {
			t.Error("found an inode that was not added")
		}
	}
	b, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(b, []byte("drydock-pass-5\n\x00")) || len(b) != RecordHeadSize+5000*24+4 {
		t.Errorf("%d bytes", len(b))
	}
}

// Whatever changes in the file of a record, it is not used.
func TestDamagedRecordIsNotUsed(t *testing.T) {
	var r recorder
	for i := range 10 {
		r.Add(&fsys.Meta{Ino: uint64(i)}, &fsys.Meta{}, true, 1)
	}
	id := recordID{Token: "t", Member: "m", boot: "b", Mount: "n", source: 1, target: 2, trusted: true}
	path := filepath.Join(t.TempDir(), "record")
	must(t, (&Trust{Id: id, Current: &r}).Record().Save(path, nil))
	whole, err := os.ReadFile(path)
	must(t, err)
	for at := range whole {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		if _, err := decodeRecord(bytes.NewReader(damaged), int64(len(damaged)), id); err == nil {
			t.Errorf("byte %d of %d may change", at, len(whole))
		}
		if _, err := decodeRecord(bytes.NewReader(whole[:at]), int64(at), id); err == nil {
			t.Errorf("the record may end after %d of %d bytes", at, len(whole))
		}
	}
	for _, change := range []func(*recordID){
		func(id *recordID) { id.Token = "u" }, func(id *recordID) { id.Member = "u" }, func(id *recordID) { id.boot = "u" },
		func(id *recordID) { id.Mount = "u" }, func(id *recordID) { id.source = 3 }, func(id *recordID) { id.target = 3 },
		func(id *recordID) { id.trusted = false },
	} {
		other := id
		change(&other)
		if _, err := loadRecord(path, other); err == nil {
			t.Errorf("the record of %+v is used for %+v", id, other)
		}
	}
}
