//go:build linux

package mover

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRecordFindsEveryAddedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), recordName)
	f, err := os.Create(path)
	must(t, err)
	r := &record{}
	metas := make([]meta, 5000)
	for i := range metas {
		metas[i] = meta{ino: uint64(i * 3), size: int64(i), mode: unix.S_IFREG | 0o644, nlink: 1}
		r.add(&metas[i], &meta{ino: uint64(i)}, sum{byte(i), byte(i >> 8)}, 1)
	}
	id := recordID{token: "t", boot: "b", source: 1, target: 2}
	must(t, r.encode(f, id))
	must(t, f.Close())
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY, 0)
	must(t, err)
	defer unix.Close(dir)
	back, err := readRecord(dir, id)
	must(t, err)
	for i := range metas {
		content, ok := back.find(&metas[i], &meta{ino: uint64(i)})
		if !ok || content != (sum{byte(i), byte(i >> 8)}) {
			t.Fatal(i)
		}
		if _, ok := back.find(&metas[i], &meta{ino: uint64(i), ctimeNsec: 1}); ok {
			t.Fatal(i)
		}
	}
	if _, ok := back.find(&meta{ino: 7}, &meta{}); ok {
		t.Error("found an inode that was not added")
	}
	b, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(b, []byte("drydock-pass-1\n\x00")) || int64(len(b)) != recordHeadSize+5000*56+32 {
		t.Errorf("%d bytes", len(b))
	}
}
