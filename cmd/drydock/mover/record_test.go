//go:build linux

package mover

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A record has every added file, in memory and after it was written to a file.
func TestRecordFindsEveryAddedFile(t *testing.T) {
	var r recorder
	metas := make([]meta, 5000)
	for i := range metas {
		metas[i] = meta{ino: uint64(i*7919%5000) * 3, size: int64(i), mode: unix.S_IFREG | 0o644, nlink: 1}
		r.add(&metas[i], &meta{ino: uint64(i)}, i%2 == 0, 1)
	}
	id := recordID{token: "t", boot: "b", source: 1, target: 2}
	inMemory := r.record(id)
	path := filepath.Join(t.TempDir(), "record")
	must(t, inMemory.save(path, nil))
	loaded, err := loadRecord(path, id)
	must(t, err)
	for _, back := range []*record{inMemory, loaded} {
		for i := range metas {
			if plain, ok := back.find(&metas[i], &meta{ino: uint64(i)}); !ok || plain != (i%2 == 0) {
				t.Fatal(i)
			}
			if _, ok := back.find(&metas[i], &meta{ino: uint64(i), ctimeNsec: 1}); ok {
				t.Fatal(i)
			}
			if at := back.search(metas[i].ino, i); at < 0 || back.search(metas[i].ino, at) != at {
				t.Fatal(i)
			}
		}
		if _, ok := back.find(&meta{ino: 7}, &meta{}); ok || back.search(15_000, 0) >= 0 {
			t.Error("found an inode that was not added")
		}
	}
	b, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(b, []byte("drydock-pass-4\n\x00")) || len(b) != recordHeadSize+5000*24+4 {
		t.Errorf("%d bytes", len(b))
	}
}

// Whatever changes in the file of a record, it is not used.
func TestDamagedRecordIsNotUsed(t *testing.T) {
	var r recorder
	for i := range 10 {
		r.add(&meta{ino: uint64(i)}, &meta{}, true, 1)
	}
	id := recordID{token: "t", member: "m", boot: "b", mount: "n", source: 1, target: 2, trusted: true}
	path := filepath.Join(t.TempDir(), "record")
	must(t, r.record(id).save(path, nil))
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
		func(id *recordID) { id.token = "u" }, func(id *recordID) { id.member = "u" }, func(id *recordID) { id.boot = "u" },
		func(id *recordID) { id.mount = "u" }, func(id *recordID) { id.source = 3 }, func(id *recordID) { id.target = 3 },
		func(id *recordID) { id.trusted = false },
	} {
		other := id
		change(&other)
		if _, err := loadRecord(path, other); err == nil {
			t.Errorf("the record of %+v is used for %+v", id, other)
		}
	}
}
