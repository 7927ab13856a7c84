//go:build linux

package mover

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"

	"drydock.dev/cmd/drydock/mover/tree"
)

// lateMover is a mover whose node loses its network during a first pass. The cluster declares its pod ended, another mover completes the
// copy, and the member runs on the target. Then the network is back, and the first mover continues, because only the end of its process
// stops a pass.
type lateMover struct {
	t        *testing.T
	src, dst string
	hangs    chan struct{} // closed when the mover waits for its network
	network  chan struct{} // closed when the network is back
	ended    chan error
}

// newLateMover starts the mover. hook returns the hooks that call hang where the network is lost.
func newLateMover(t *testing.T, src, dst string, hook func(hang func()) hooks) *lateMover {
	m := &lateMover{t: t, src: src, dst: dst, hangs: make(chan struct{}), network: make(chan struct{}), ended: make(chan error, 1)}
	var once sync.Once
	o := m.options(tree.PassFirst)
	o.hooks = hook(func() { once.Do(func() { close(m.hangs); <-m.network }) })
	go func() { _, err := Copy(context.Background(), o); m.ended <- err }()
	<-m.hangs
	return m
}

func (m *lateMover) options(pass tree.Pass) Options {
	return Options{Source: m.src, Target: m.dst, Workers: 1, Token: operation, Pass: pass, OwnOnly: true}
}

// completeByAnother lets another mover complete the copy.
func (m *lateMover) completeByAnother() {
	m.t.Helper()
	_, err := Copy(context.Background(), m.options(tree.PassFirst))
	must(m.t, err)
	r, err := Copy(context.Background(), m.options(tree.PassFinal))
	if err != nil || !r.Verified {
		m.t.Fatalf("%+v %v", r, err)
	}
}

// expectUntouched lets the network come back, and checks that the late mover leaves the live file alone.
func (m *lateMover) expectUntouched(path string) {
	m.t.Helper()
	want, err := os.ReadFile(m.dst + "/" + path)
	must(m.t, err)
	before, err := os.Stat(m.dst + "/" + path)
	must(m.t, err)
	close(m.network)
	ended := <-m.ended
	after, err := os.Stat(m.dst + "/" + path)
	if err != nil {
		m.t.Fatalf("the late mover ended with %v, and the live file: %v", ended, err)
	}
	have, err := os.ReadFile(m.dst + "/" + path)
	must(m.t, err)
	if ended == nil || !bytes.Equal(want, have) || !before.ModTime().Equal(after.ModTime()) {
		m.t.Errorf("the late mover ended with %v; equal contents: %v; times %s, %s", ended, bytes.Equal(want, have), before.ModTime(),
			after.ModTime())
	}
}

// TestLateMoverReplacesNoLiveFile: the mover hangs at another file of the directory.
func TestLateMoverReplacesNoLiveFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "ledger", "z"} {
		writeFile(t, src+"/"+name, "old contents of "+name)
	}
	m := newLateMover(t, src, dst, func(hang func()) hooks {
		return hooks{source: func(_, path string) error {
			if path == "a" {
				hang()
			}
			return nil
		}}
	})
	m.completeByAnother()
	writeFile(t, dst+"/ledger", "new contents")
	m.expectUntouched("ledger")
}

// TestLateMoverWritesNoPieceOfLiveFile: a first pass writes a big file of a new directory under its own name, and the other mover patches
// the same inode. So each piece that the late mover writes would go to the live file.
func TestLateMoverWritesNoPieceOfLiveFile(t *testing.T) {
	for _, dir := range []string{"", "pgdata/"} {
		src, dst := t.TempDir(), t.TempDir()
		must(t, os.MkdirAll(src+"/"+dir, 0o755))
		must(t, os.WriteFile(src+"/"+dir+"table", bytes.Repeat([]byte("old contents...."), 1<<20), 0o600)) // 16 MiB
		m := newLateMover(t, src, dst, func(hang func()) hooks { return hooks{wrote: func(string, int64) { hang() }} })
		m.completeByAnother()
		writeInPlace(t, dst+"/"+dir+"table", bytes.Repeat([]byte("new of the member"), 900_000), 0)
		m.expectUntouched(dir + "table")
	}
}

// TestLateMoverPatchesNoLiveFile: the mover hangs in the second pass, between two pieces of a file that has changed.
func TestLateMoverPatchesNoLiveFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(src+"/table", bytes.Repeat([]byte("old contents...."), 1<<20), 0o600))
	_, err := Copy(context.Background(), (&lateMover{src: src, dst: dst}).options(tree.PassFirst))
	must(t, err)
	writeInPlace(t, src+"/table", bytes.Repeat([]byte("x"), 9<<20), 1<<20)
	m := newLateMover(t, src, dst, func(hang func()) hooks { return hooks{wrote: func(string, int64) { hang() }} })
	m.completeByAnother()
	writeInPlace(t, dst+"/table", bytes.Repeat([]byte("new of the member"), 900_000), 0)
	m.expectUntouched("table")
}

// TestLateMoverDeletesNoLiveFile: the mover hangs while it copies a file into a new directory, under the file's own name. The member writes
// to its source before it is stopped. So the late mover finds that its file has changed, and discards it by its name, which is now the name
// of the live file.
func TestLateMoverDeletesNoLiveFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(src+"/wal", 0o755))
	writeFile(t, src+"/wal/segment", "old contents")
	m := newLateMover(t, src, dst, func(hang func()) hooks { return hooks{copying: func(string) { hang() }} })
	writeFile(t, src+"/wal/segment", "old contents, and the last ones before the stop")
	m.completeByAnother()
	writeFile(t, dst+"/wal/segment", "new contents")
	m.expectUntouched("wal/segment")
}

// writeInPlace writes into an existing file, as a database does.
func writeInPlace(t *testing.T, path string, contents []byte, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(contents, off)
	must(t, err)
	must(t, f.Close())
}
