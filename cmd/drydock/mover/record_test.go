//go:build linux

package mover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRecordFindsEveryAddedFile(t *testing.T) {
	for _, limit := range []int{0, 300, 5000, 4999} { // with and without runs in a file
		t.Run(fmt.Sprint(limit), func(t *testing.T) { testRecord(t, limit) })
	}
}

func testRecord(t *testing.T, limit int) {
	path := filepath.Join(t.TempDir(), recordName)
	f, err := os.Create(path)
	must(t, err)
	r := &recordWriter{limit: limit, spill: func() (*os.File, error) { return os.CreateTemp(t.TempDir(), "") }}
	defer r.close()
	metas := make([]meta, 5000)
	for i := range metas {
		metas[i] = meta{ino: uint64(i*7919%5000) * 3, size: int64(i), mode: unix.S_IFREG | 0o644, nlink: 1}
		r.add(recordedFile(&metas[i], &meta{ino: uint64(i)}, sum{byte(i), byte(i >> 8)}, i%2 == 0), 1)
	}
	id := recordID{token: "t", boot: "b", source: 1, target: 2}
	inodes, err := r.encode(f, id)
	must(t, err)
	must(t, f.Close())
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY, 0)
	must(t, err)
	defer unix.Close(dir)
	back, err := readRecord(dir, id)
	must(t, err)
	defer back.close()
	for i := range metas {
		k, ok := back.find(&metas[i], &meta{ino: uint64(i)})
		if !ok || k != (known{sum{byte(i), byte(i >> 8)}, i%2 == 0}) || !back.expects(&metas[i]) || !inodes.contains(metas[i].ino) {
			t.Fatal(i)
		}
		if _, ok := back.find(&metas[i], &meta{ino: uint64(i), ctimeNsec: 1}); ok {
			t.Fatal(i)
		}
	}
	if _, ok := back.find(&meta{ino: 7}, &meta{}); ok || inodes.contains(7) || inodes.contains(15_000) {
		t.Error("found an inode that was not added")
	}
	b, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(b, []byte("drydock-pass-3\n\x00")) || int64(len(b)) != recordHeadSize+5000*64+32 {
		t.Errorf("%d bytes", len(b))
	}
}
