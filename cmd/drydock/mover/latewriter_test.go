//go:build linux

package mover

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
)

// lateCopy lets a first mover hang in the middle of a big file, a second one complete the copy, and the member write to the file. Then the
// first mover goes on. It returns what the live file has then.
func lateCopy(t *testing.T, dir, name string, prepare func(src, dst string)) (want, have []byte, ended error) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(src+"/"+dir, 0o755))
	old := bytes.Repeat([]byte("old contents...."), 16<<20/16)
	path := dir + name
	must(t, os.WriteFile(src+"/"+path, old, 0o600))
	if prepare != nil {
		prepare(src, dst)
	}
	o := Options{Source: src, Target: dst, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true}

	hangs, network := make(chan struct{}), make(chan struct{})
	late := o
	var once sync.Once
	late.hooks.wrote = func(p string, _ int64) {
		if p == path {
			once.Do(func() { close(hangs); <-network })
		}
	}
	done := make(chan error, 1)
	go func() { _, err := Copy(context.Background(), late); done <- err }()
	<-hangs

	second := o
	_, err := Copy(context.Background(), second)
	must(t, err)
	second.Pass = PassFinal
	r, err := Copy(context.Background(), second)
	if err != nil || r.Digest == "" {
		t.Fatalf("%+v %v", r, err)
	}
	want = bytes.Repeat([]byte("new of the member"), 16<<20/16)[:16<<20]
	f, err := os.OpenFile(dst+"/"+path, os.O_RDWR, 0) // the member writes in place, as a database does
	must(t, err)
	_, err = f.WriteAt(want, 0)
	must(t, err)
	must(t, f.Close())
	close(network)
	ended = <-done
	have, err = os.ReadFile(dst + "/" + path)
	must(t, err)
	return want, have, ended
}

func differing(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// TestLateMoverInNewBigFileLeavesFinishedTargetAlone: a first pass writes a big file of a fresh directory under its own name, and the
// second mover patches the same inode. So each piece that the late mover writes goes to the live file.
func TestLateMoverInNewBigFileLeavesFinishedTargetAlone(t *testing.T) {
	want, have, ended := lateCopy(t, "pgdata/", "table", nil)
	if !bytes.Equal(want, have) {
		t.Errorf("the late mover ended with %v. The live file has %d wrong bytes of %d", ended, differing(want, have), len(want))
	}
}

// TestLateMoverInNewBigFileOfRoot is the same in the root directory.
func TestLateMoverInNewBigFileOfRoot(t *testing.T) {
	want, have, ended := lateCopy(t, "", "table", nil)
	if !bytes.Equal(want, have) {
		t.Errorf("the late mover ended with %v. The live file has %d wrong bytes of %d", ended, differing(want, have), len(want))
	}
}

// TestLateMoverDeletesNoLiveFile: the late mover hangs while it copies a file into a fresh directory, under the file's own name. The member
// writes to its source before it is stopped, so the late mover's file turns out to have changed, and the mover discards it: by its name,
// which is the live file now.
func TestLateMoverDeletesNoLiveFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(src+"/wal", 0o755))
	write(t, src+"/wal/segment", "old contents")
	o := Options{Source: src, Target: dst, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true}

	hangs, network := make(chan struct{}), make(chan struct{})
	late := o
	var once sync.Once
	late.hooks.copying = func(p string) {
		if p == "wal/segment" {
			once.Do(func() { close(hangs); <-network })
		}
	}
	done := make(chan error, 1)
	go func() { _, err := Copy(context.Background(), late); done <- err }()
	<-hangs
	write(t, src+"/wal/segment", "old contents, and what the member wrote before its stop")

	second := o
	_, err := Copy(context.Background(), second)
	must(t, err)
	second.Pass = PassFinal
	r, err := Copy(context.Background(), second)
	if err != nil || r.Digest == "" {
		t.Fatalf("%+v %v", r, err)
	}
	write(t, dst+"/wal/segment", "what the member has written since")
	close(network)
	ended := <-done
	if have, err := os.ReadFile(dst + "/wal/segment"); err != nil || string(have) != "what the member has written since" {
		t.Errorf("the late mover ended with %v. The live file: %q, %v", ended, have, err)
	}
}

// TestLateMoverChangesNoTimeOfLiveFile: the late mover hangs in a patch. The check fails, and then the mover invalidates the live file.
func TestLateMoverChangesNoTimeOfLiveFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	old := bytes.Repeat([]byte("old contents...."), 16<<20/16)
	must(t, os.WriteFile(src+"/table", old, 0o600))
	o := Options{Source: src, Target: dst, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true}
	_, err := Copy(context.Background(), o)
	must(t, err)
	f, err := os.OpenFile(src+"/table", os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), 9<<20), 1<<20)
	must(t, err)
	must(t, f.Close())

	hangs, network := make(chan struct{}), make(chan struct{})
	late := o
	var once sync.Once
	late.hooks.wrote = func(p string, _ int64) { once.Do(func() { close(hangs); <-network }) }
	done := make(chan error, 1)
	go func() { _, err := Copy(context.Background(), late); done <- err }()
	<-hangs
	second := o
	second.Pass = PassFinal
	r, err := Copy(context.Background(), second)
	if err != nil || r.Digest == "" {
		t.Fatalf("%+v %v", r, err)
	}
	want := bytes.Repeat([]byte("new of the member"), 16<<20/16)[:16<<20]
	f, err = os.OpenFile(dst+"/table", os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(want, 0)
	must(t, err)
	must(t, f.Close())
	before, err := os.Stat(dst + "/table")
	must(t, err)
	close(network)
	ended := <-done
	after, err := os.Stat(dst + "/table")
	must(t, err)
	have, err := os.ReadFile(dst + "/table")
	must(t, err)
	if !before.ModTime().Equal(after.ModTime()) || !bytes.Equal(want, have) {
		t.Errorf("the late mover ended with %v. The live file has %d wrong bytes; its time was %s and is %s", ended, differing(want, have),
			before.ModTime(), after.ModTime())
	}
}
