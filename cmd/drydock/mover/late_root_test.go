//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// Another mover completes the copy while this one makes directories. It must stop: "each write must follow a check" (Owner.CheckOwned).
// Otherwise it makes directories again that the member on the target has deleted.
func TestLateMoverMakesNoDirectories(t *testing.T) {
	const dirs = 20_000
	src, dst := newVolume(t, 256), newVolume(t, 256)
	for i := range dirs {
		must(t, os.Mkdir(fmt.Sprintf("%s/%05d", src.dir, i), 0o755))
	}
	ended := make(chan error, 1)
	go func() {
		o := Options{Source: src.dir, Target: dst.dir, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true}
		_, err := Copy(context.Background(), o)
		ended <- err
	}()
	for {
		names, err := os.ReadDir(dst.dir)
		must(t, err)
		if len(names) > 100 {
			break
		}
	}
	must(t, os.Remove(dst.dir+"/"+target.MarkerName)) // the copy is complete
	before, err := os.ReadDir(dst.dir)
	must(t, err)
	if err := <-ended; err == nil {
		t.Error("the late mover did not notice it")
	}
	after, err := os.ReadDir(dst.dir)
	must(t, err)
	if more := len(after) - len(before); more > 100 {
		t.Errorf("the late mover made %d directories after it had lost the target (of %d at that moment)", more, len(before))
	}
}

// The late mover hangs after it has written a new file under a temporary name, and before it gives the file the name of the live one.
func TestLateMoverInstallsNoFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	writeFile(t, src+"/ledger", "oldest contents")
	_, err := Copy(context.Background(), (&lateMover{src: src, dst: dst}).options(tree.PassFirst))
	must(t, err)
	time.Sleep(10 * time.Millisecond)
	writeFile(t, src+"/ledger", "old contents of the source")
	m := newLateMover(t, src, dst, func(hang func()) hooks { return hooks{copying: func(string) { hang() }} })
	m.completeByAnother()
	writeFile(t, dst+"/ledger", "new contents")
	m.expectUntouched("ledger")
}

// The late mover comes back before the other one has completed the copy: while it verifies. Its file has changed in the source, so it would
// mark its copy as torn. By now that is the inode that the other mover has patched and verified. A new mark has ended the late one.
func TestLateMoverLeavesTargetToRunningMover(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(src+"/c", 0o755))
	must(t, os.Mkdir(src+"/d", 0o755))
	must(t, os.WriteFile(src+"/d/a", bytes.Repeat([]byte("a"), 2<<20), 0o644))
	must(t, os.WriteFile(src+"/c/z", bytes.Repeat([]byte("z"), 32<<20), 0o644))
	m := newLateMover(t, src, dst, func(hang func()) hooks {
		return hooks{copying: func(path string) {
			if path == "d/a" {
				hang()
			}
		}}
	})
	writeInPlace(t, src+"/d/a", []byte("the last write before the stop"), 1<<20)
	_, err := Copy(context.Background(), m.options(tree.PassFirst))
	must(t, err)
	o := m.options(tree.PassFinal)
	late := make(chan error, 1)
	o.Limit = NewLimiter(16 << 20) // d/a is verified in a quarter of a second, then c/z in four seconds
	o.hooks.synced = func() {
		go func() {
			time.Sleep(1500 * time.Millisecond)
			close(m.network)
			late <- <-m.ended
		}()
	}
	r, err := Copy(context.Background(), o)
	ended := <-late
	if err == nil && r.Verified {
		requireSameFacts(t, src, dst)
	}
	if t.Failed() {
		t.Logf("the late mover ended with %v, and the other one with %v: %+v", ended, err, r)
	}
}

// The late mover has scanned the source and hangs before it deletes what the source did not have then. Meanwhile the source gets a file,
// and the running mover copies and verifies it. The late one must not delete it.
func TestLateMoverDeletesNothingOfRunningMover(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(src+"/c", 0o755))
	must(t, os.Mkdir(src+"/d", 0o755))
	writeFile(t, src+"/d/old", "x")
	must(t, os.WriteFile(src+"/c/z", bytes.Repeat([]byte("z"), 32<<20), 0o644))
	waitSettled()
	o := Options{Source: src, Target: dst, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true, Settled: settled}
	late, hangs, network, ended := o, make(chan bool), make(chan bool), make(chan error, 1)
	late.Progress = func(p moverreport.Progress) {
		if p.Phase == moverreport.PhaseCopy && p.FilesDone == 0 {
			close(hangs)
			<-network
		}
	}
	go func() { _, err := Copy(context.Background(), late); ended <- err }()
	<-hangs
	writeFile(t, src+"/d/new", "the last transaction before the stop")
	_, err := Copy(context.Background(), o)
	must(t, err)
	o.Pass, o.Limit = PassFinal, NewLimiter(16<<20) // d is verified at once, then c/z in four seconds
	after := make(chan error, 1)
	o.hooks.synced = func() {
		go func() {
			time.Sleep(1500 * time.Millisecond)
			close(network)
			after <- <-ended
		}()
	}
	r, err := Copy(context.Background(), o)
	lateErr := <-after
	if err == nil && r.Verified {
		requireSameFacts(t, src, dst)
	}
	if t.Failed() {
		t.Logf("the late mover ended with %v, and the other one with %v: %+v", lateErr, err, r)
	}
}
