//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// writeRandomFile writes a fully allocated file of random contents.
func writeRandomFile(t testing.TB, r *rand.Rand, path string, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.IntN(256))
	}
	_, _ = rand.NewChaCha8(seed).Read(b)
	must(t, os.WriteFile(path, b, 0o644))
	return b
}

// changeBytes changes single bytes at places far from each other.
func changeBytes(t testing.TB, r *rand.Rand, path string, times int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	for i := range times {
		at := st.Size() / int64(times) * int64(i)
		b := []byte{0}
		_, err = f.ReadAt(b, at)
		must(t, err)
		_, err = f.WriteAt([]byte{b[0] + 1 + byte(r.IntN(200))}, at)
		must(t, err)
	}
}

func inodeOf(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino
}

func TestFinalPassWritesOnlyTheBlocksThatDiffer(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 40<<20+777)
	must(t, os.Link(src.dir+"/db", src.dir+"/db.link"))
	must(t, unix.Setxattr(src.dir+"/db", "user.x", []byte("1"), 0))
	must(t, os.Chmod(src.dir+"/db", 0o4711))
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	before := inodeOf(t, dst.dir+"/db")
	changeBytes(t, r, src.dir+"/db", 100)
	must(t, unix.Setxattr(src.dir+"/db", "user.x", []byte("2"), 0))
	final := copyTree(t, finalPass(src.dir, dst.dir))
	if final.Bytes != 100*units.CompareBlock || final.Files != 1 || inodeOf(t, dst.dir+"/db") != before {
		t.Errorf("%+v", final)
	}
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

// Only attributes of the file changed, or the file was too young to be recorded.
func TestEqualBigFileIsNotWritten(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 8<<20)
	o := firstPass(src.dir, dst.dir)
	o.Settled = time.Hour
	runFirstPass(t, o)
	for _, change := range []func(){func() {}, func() { must(t, os.Chmod(src.dir+"/db", 0o600)) }} {
		change()
		if r := runFirstPass(t, o); r.Bytes != 0 || r.Skipped != 1 || r.Files != 0 {
			t.Errorf("%+v", r)
		}
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

func TestPatchKeepsHolesAndAllocatesData(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	const m = 1 << 20
	writeRandomFile(t, r, src.dir+"/db", 48*m)
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	f, err := os.OpenFile(src.dir+"/db", os.O_RDWR, 0)
	must(t, err)
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	must(t, unix.Fallocate(int(f.Fd()), punch, 3*m, 20*m))
	must(t, f.Truncate(60*m))
	_, err = f.WriteAt(make([]byte, 2*m), 50*m) // zeros, but data
	must(t, err)
	must(t, f.Close())
	runFirstPass(t, firstPass(src.dir, dst.dir))
	if want, got := dataMap(t, src.dir+"/db"), dataMap(t, dst.dir+"/db"); got != want {
		t.Errorf("data at %s, want %s", got, want)
	}
	f, err = os.OpenFile(src.dir+"/db", os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte("in the hole "), 100_000), 7*m)
	must(t, err)
	must(t, f.Truncate(30*m))
	must(t, f.Close())
	final := copyTree(t, finalPass(src.dir, dst.dir))
	if final.Bytes > 2*m {
		t.Errorf("%+v", final)
	}
	if want, got := dataMap(t, src.dir+"/db"), dataMap(t, dst.dir+"/db"); got != want {
		t.Errorf("data at %s, want %s", got, want)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// A database that is constantly written to stays in the target, so that the final pass has to write little.
func TestBigFileThatAlwaysChangesStaysInTarget(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 16<<20)
	writeFile(t, src.dir+"/small", "x")
	o := firstPass(src.dir, dst.dir)
	o.hooks.copying = func(path string) { changeBytes(t, r, src.dir+"/"+path, 1) }
	first := runFirstPass(t, o)
	if first.Changed < 1 || first.Bytes < 16<<20 {
		t.Fatalf("%+v", first)
	}
	if second := runFirstPass(t, o); second.Changed < 1 || second.Bytes > 2*units.CompareBlock || second.RecordedFiles != 0 {
		t.Errorf("%+v", second)
	}
	if _, err := os.Stat(dst.dir + "/small"); err == nil {
		t.Error("an incomplete small file must not stay")
	}
	changeBytes(t, r, src.dir+"/db", 10)
	if final := copyTree(t, finalPass(src.dir, dst.dir)); final.Bytes > 12*units.CompareBlock {
		t.Errorf("%+v", final)
	}
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

// A run that was killed while it patched a file is repeated. It finds the torn file.
func TestPatchResumesAfterKill(t *testing.T) {
	for after := range int64(3) {
		src, dst := newVolume(t, 128), newVolume(t, 128)
		r := seed.Random(t)
		writeRandomFile(t, r, src.dir+"/db", 40<<20)
		waitSettled()
		runFirstPass(t, firstPass(src.dir, dst.dir))
		changeBytes(t, r, src.dir+"/db", 60)
		if !killed(t, child{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal, KillAfter: 1 + after*20*units.CompareBlock}, 0) {
			t.Fatal("the child was not killed")
		}
		if final := copyTree(t, finalPass(src.dir, dst.dir)); final.Bytes == 0 || final.TrustedFiles != 0 {
			t.Errorf("%+v", final)
		}
		requireEqualTrees(t, src.dir, dst.dir)
	}
}

// The final pass finds a block that changed on the target's device, although the patch compared it in memory.
func TestPatchIsVerifiedFromTheDevice(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	contents := writeRandomFile(t, r, src.dir+"/db", 8<<20)
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	changeBytes(t, r, src.dir+"/db", 2)
	o := finalPass(src.dir, dst.dir)
	o.hooks.synced = func() { corruptOnDevice(t, dst.image, contents[5<<20:5<<20+64]) }
	if e := copyFails(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, `"db"`) {
		t.Error(e)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// A hard link that the source does not have any more must not carry a patch into another file.
func TestPatchDoesNotWriteToSharedInode(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/a", 4<<20)
	must(t, os.Link(src.dir+"/a", src.dir+"/b"))
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	contents, err := os.ReadFile(src.dir + "/a")
	must(t, err)
	must(t, os.Remove(src.dir+"/b"))
	must(t, os.WriteFile(src.dir+"/b", contents, 0o644))
	changeBytes(t, r, src.dir+"/a", 3)
	changeBytes(t, r, src.dir+"/b", 5)
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// The mover owns the file, but the file's mode does not allow writing.
func TestUserPatchesOwnReadOnlyFile(t *testing.T) {
	src, dst := volumes(t)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/data/db", 4<<20)
	must(t, os.Chown(src.dir+"/data/db", user, user))
	must(t, os.Chmod(src.dir+"/data/db", 0o400))
	waitSettled()
	if r := (child{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}).run(t, user); r.Code != moverreport.CodeOK {
		t.Fatalf("%+v", r)
	}
	changeBytes(t, r, src.dir+"/data/db", 3)
	final := (child{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal}).run(t, user)
	if final.Code != moverreport.CodeOK || !final.Verified || final.Bytes != 3*units.CompareBlock {
		t.Fatalf("%+v", final)
	}
	requireEqualTrees(t, src.dir+"/data", dst.dir+"/data")
}

// The passes make a copy, however the big files change between them.
func TestPatchesOfRandomChanges(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	const size = 20 << 20
	writeRandomFile(t, r, src.dir+"/db", size)
	last := Result{}
	for range 25 {
		f, err := os.OpenFile(src.dir+"/db", os.O_RDWR, 0)
		must(t, err)
		for range 1 + r.IntN(6) {
			at, n := r.Int64N(size+size/4), 1+r.Int64N(3<<20)
			switch r.IntN(4) {
			case 0:
				must(t, f.Truncate(tree.BigFileMin+at))
			case 1:
				must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n))
			case 2:
				must(t, unix.Fallocate(int(f.Fd()), 0, at, n)) // allocated, but never written
			default:
				_, err := f.WriteAt(bytes.Repeat([]byte{byte(r.IntN(256))}, int(n)), at)
				must(t, err)
			}
		}
		must(t, f.Close())
		if r.IntN(3) == 0 {
			waitSettled()
		}
		o := firstPass(src.dir, dst.dir)
		if r.IntN(4) > 0 { // with the hashes that the last pass kept
			o.Last = last
		}
		last = runFirstPass(t, o)
		if r.IntN(3) == 0 {
			final := finalPass(src.dir, dst.dir)
			final.Last = last
			copyTree(t, final)
			requireEqualTrees(t, src.dir, dst.dir)
		}
	}
	final := finalPass(src.dir, dst.dir)
	final.Last = last
	copyTree(t, final)
	requireEqualTrees(t, src.dir, dst.dir)
}

// A cancelled pass ends within a piece. The next pass succeeds with the files that it left.
func TestPatchEndsWithItsContext(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 16<<20)
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	changeBytes(t, r, src.dir+"/db", 1000)
	ctx, stop := context.WithCancel(context.Background())
	o := firstPass(src.dir, dst.dir)
	o.hooks.wrote = func(string, int64) { stop() }
	result, err := Copy(ctx, o)
	if NewReport(result, err, 0).Code != moverreport.CodeTerminated || result.Bytes > 4<<20 {
		t.Errorf("%v %+v", err, result)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}
