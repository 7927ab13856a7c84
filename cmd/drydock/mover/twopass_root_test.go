//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

func waitSettled() { time.Sleep(settled + 20*time.Millisecond) }

// runFirstPass runs a first pass that must succeed.
func runFirstPass(t testing.TB, o Options) Result {
	t.Helper()
	r, err := Copy(context.Background(), o)
	if err != nil || r.Verified {
		t.Fatalf("first pass: %+v: %v", r, err)
	}
	return r
}

// The final pass finds one change of each kind, and reads nothing else.
// Invariants: I1.
func TestFinalPassFindsEachChange(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	for i, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			from, to := filepath.Join(src.dir, fmt.Sprint(i)), filepath.Join(dst.dir, fmt.Sprint(i))
			must(t, os.MkdirAll(to, 0o755))
			w := newLive(t, r, from)
			if r := runFirstPass(t, firstPass(from, to)); r.RecordedFiles != 26 || r.RecordedBytes == 0 || r.Changed != 0 {
				t.Fatalf("%+v", r)
			}
			must(t, c.do(w))
			final := copyTree(t, finalPass(from, to))
			if final.TrustedFiles < 16 || final.TrustedFiles > 29 || final.TrustedBytes == 0 {
				t.Errorf("%+v", final)
			}
			requireEqualTrees(t, from, to)
			requireNoTemps(t, to)
		})
	}
}

// Whatever happens to the source during the first passes and after them, the final pass makes a copy and reports its
// digest.
// Invariants: I1.
func TestTwoPassesOverSourceInUse(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	trusted := int64(0)
	for i := range 25 {
		from, to := filepath.Join(src.dir, fmt.Sprint(i)), filepath.Join(dst.dir, fmt.Sprint(i))
		must(t, os.MkdirAll(to, 0o755))
		w := newLive(t, r, from)
		for range 1 + r.IntN(2) {
			o := firstPass(from, to)
			o.Workers = 1 + r.IntN(4)
			some := w.sometimes(5 + r.IntN(60))
			o.hooks.copying = func(string) { some() }
			o.hooks.wrote = func(string, int64) { some() }
			o.hooks.confirmed = func(string) { some() }
			o.hooks.synced = some
			runFirstPass(t, o)
			for range r.IntN(5) {
				w.change()
			}
		}
		if r.IntN(4) == 0 {
			child{Source: from, Target: to, Pass: tree.PassFinal, KillAtFile: 1 + r.Int64N(4)}.try(t)
		}
		final := copyTree(t, finalPass(from, to))
		trusted += final.TrustedFiles
		requireEqualTrees(t, from, to)
		requireNoTemps(t, to)
		if t.Failed() {
			break
		}
	}
	t.Logf("%d files of about 650 were trusted", trusted)
	if trusted < 100 {
		t.Errorf("only %d files were trusted", trusted)
	}
}

// try runs a child that may kill itself, and reports whether it did.
func (c child) try(t *testing.T) bool {
	t.Helper()
	return killed(t, c, 0)
}

// Without the flush of the source, the final pass misses writes through a mapping. This shows that the tests above can
// detect that.
func TestWritesToMappingAreMissedWithoutFlush(t *testing.T) {
	for _, noFlush := range []bool{true, false} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		r := seed.Random(t)
		w := newLive(t, r, src.dir)
		o := firstPass(src.dir, dst.dir)
		o.hooks.noSettling = noFlush
		runFirstPass(t, o)
		w.mapped[0][17]++
		_, err := Copy(context.Background(), finalPass(src.dir, dst.dir))
		must(t, err)
		if missed := treeDigest(t, src.dir) != treeDigest(t, dst.dir); missed != noFlush {
			t.Errorf("without flush: %v, missed: %v", noFlush, missed)
		}
	}
}

// Two passes also work on other file systems, and where times have a precision of a second.
func TestTwoPassesOnOtherFileSystems(t *testing.T) {
	for _, c := range []struct {
		mkfs    []string
		settled time.Duration
	}{
		{[]string{"mkfs.xfs", "-q"}, settled},
		{[]string{"mkfs.btrfs", "-q"}, settled},
		{[]string{"mkfs.ext4", "-q", "-F", "-I", "128"}, 1100 * time.Millisecond},
		{[]string{"mkfs.ext2", "-q", "-F"}, settled},
	} {
		t.Run(strings.Join(c.mkfs, " "), func(t *testing.T) {
			src, dst := newVolume(t, 400, c.mkfs...), newVolume(t, 400, c.mkfs...)
			r := seed.Random(t)
			w := newLive(t, r, src.dir)
			time.Sleep(c.settled)
			o := firstPass(src.dir, dst.dir)
			o.Settled = c.settled
			some := w.sometimes(20)
			o.hooks.confirmed = func(string) { some() }
			runFirstPass(t, o)
			w.mapped[0][17]++
			w.mapped[1][17]++
			must(t, rewrite(w.pick()))
			o = finalPass(src.dir, dst.dir)
			o.Settled = c.settled
			if r := copyTree(t, o); r.TrustedFiles == 0 {
				t.Errorf("%+v", r)
			}
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}

// On tmpfs a mapping that was written to once never leaves a trace again. Therefore tmpfs is not a trusted file system.
func TestNothingIsRecordedOnTmpfs(t *testing.T) {
	needRoot(t)
	dir, dst := t.TempDir(), newVolume(t, 32)
	runCommand(t, "mount", "-t", "tmpfs", "tmpfs", dir)
	t.Cleanup(func() { unmount(t, dir) })
	r := seed.Random(t)
	w := newLive(t, r, dir)
	if r := runFirstPass(t, firstPass(dir, dst.dir)); r.RecordedFiles != 0 || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
	var before, after unix.Stat_t
	must(t, unix.Stat(dir+"/mapped0", &before))
	w.mapped[0][17]++
	must(t, unix.Stat(dir+"/mapped0", &after))
	if fsys.MetaOf(&before) != fsys.MetaOf(&after) {
		t.Log("this kernel shows the write")
	}
}

// A first pass succeeds whatever happens to its source at the same time.
func TestFirstPassesUnderLoad(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	r := seed.Random(t)
	w := newLive(t, r, src.dir)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				w.change()
			}
		}
	}()
	changed := int64(0)
	for range 15 {
		changed += runFirstPass(t, firstPass(src.dir, dst.dir)).Changed
	}
	close(stop)
	<-done
	t.Logf("%d entries changed while they were read", changed)
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// The source changes while the verification reads it. The contents differ then, but the target is not to blame.
func TestChangeOfSourceDuringVerificationIsNoMismatch(t *testing.T) {
	for _, pass := range []Pass{PassFirst, PassFinal} {
		src, dst := newVolume(t, 64), newVolume(t, 64)
		path := src.dir + "/table"
		must(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 4<<20), 0o644))
		waitSettled()
		o := firstPass(src.dir, dst.dir)
		o.Pass, o.Limit = pass, NewLimiter(16<<20) // the copy and the verification take half a second each
		done := make(chan error, 1)
		o.hooks.synced = func() {
			go func() {
				time.Sleep(100 * time.Millisecond)
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err == nil {
					_, err = f.WriteAt([]byte("y"), 4<<20-1)
					err = errors.Join(err, f.Close())
				}
				done <- err
			}()
		}
		if pass == PassFinal {
			copyFails(t, o, moverreport.CodeSourceChanged)
		} else if r := runFirstPass(t, o); r.Changed != 1 || r.RecordedFiles != 0 {
			t.Errorf("%+v", r)
		}
		must(t, <-done)
		copyTree(t, finalPass(src.dir, dst.dir))
		requireEqualTrees(t, src.dir, dst.dir)
	}
}

// A file that changed a moment ago may still be changing.
func TestYoungFilesAreNotRecorded(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	writeFile(t, src.dir+"/f", "x")
	o := firstPass(src.dir, dst.dir)
	o.Settled = 0 // the default
	if r := runFirstPass(t, o); r.RecordedFiles != 0 {
		t.Errorf("%+v", r)
	}
	if r := copyTree(t, finalPass(src.dir, dst.dir)); r.TrustedFiles != 0 {
		t.Errorf("%+v", r)
	}
}

// One call may write to a file for longer than the settling time, and only its begin is stamped. So a big file must have been
// left alone for longer than a small one. The sizes are those of holes: only they count.
func TestBigFileSettlesLater(t *testing.T) {
	for _, c := range []struct {
		size    int64
		age     time.Duration
		settled bool
	}{
		{0, record.DefaultSettled + time.Second, true},
		{0, record.DefaultSettled - time.Second, false},
		{480 << 20, 2*record.DefaultSettled + time.Second, true},
		{480 << 20, 2*record.DefaultSettled - time.Second, false},
		{2 << 30, record.DefaultSettled + 513*time.Second, true},
		{2 << 30, record.DefaultSettled + 511*time.Second, false},
		{1 << 40, record.DefaultSettled + 513*time.Second, true}, // no call writes more than 2 GiB
		{1 << 40, record.DefaultSettled + 511*time.Second, false},
	} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		must(t, os.WriteFile(src.dir+"/table", nil, 0o600))
		must(t, os.Truncate(src.dir+"/table", c.size))
		o := firstPass(src.dir, dst.dir)
		o.Settled = 0 // the default
		copier, err := newCopier(o)
		must(t, err)
		must(t, copier.trust.Begin(t.Context(), copier.Src, copier.Dst, nil, ""))
		e := tree.Entry{Meta: metaOfFile(t, src.dir+"/table")}
		stamp := time.Now().Add(-c.age)
		e.Meta.CtimeSec, e.Meta.MtimeSec = stamp.Unix(), stamp.Unix()
		if got := copier.trust.IsSettled(&e); got != c.settled {
			t.Errorf("%d bytes, unchanged for %s: %v", c.size, c.age, got)
		}
		copier.close()
	}
}

// As in a cluster, the mover mounts the volume read-only, and the workload writes to it.
func TestFirstPassFromReadOnlyMount(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	w := newLive(t, r, src.dir)
	view := t.TempDir()
	runCommand(t, "mount", "--bind", src.dir, view)
	defer unmount(t, view)
	runCommand(t, "mount", "-o", "remount,bind,ro", view)
	if r := runFirstPass(t, firstPass(view, dst.dir)); r.RecordedFiles == 0 || len(r.Warnings) != 0 {
		t.Fatalf("%+v", r)
	}
	w.mapped[0][1]++
	must(t, rewrite(src.dir+"/f0"))
	if r := copyTree(t, finalPass(view, dst.dir)); r.Files != 3 || r.TrustedFiles != 26 {
		t.Errorf("%+v", r) // f0 has another name
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// A second first pass reads only files that the first one did not record, and records all of them.
func TestFirstPassReusesEarlierRecord(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	newLive(t, r, src.dir)
	first := runFirstPass(t, firstPass(src.dir, dst.dir))
	must(t, rewrite(src.dir+"/f0"))
	waitSettled()
	second := runFirstPass(t, firstPass(src.dir, dst.dir))
	if second.TrustedFiles != first.RecordedFiles-1 || second.RecordedFiles != first.RecordedFiles {
		t.Errorf("%+v, then %+v", first, second)
	}
	if r := copyTree(t, finalPass(src.dir, dst.dir)); r.TrustedFiles != 29 || r.Files != 0 {
		t.Errorf("%+v", r)
	}
}

// A file that cannot be reproduced fails the first pass, before any member is stopped.
func TestFirstPassFailsForUnreadableFile(t *testing.T) {
	src, dst := volumes(t)
	must(t, os.Chmod(src.dir+"/data/table", 0))
	r := child{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful || !strings.Contains(r.Message, `opening "data/table" of the source: permission denied`) {
		t.Errorf("%+v", r)
	}
	must(t, os.Chmod(src.dir+"/data/table", 0o600))
	waitSettled()
	r = child{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}.run(t, user)
	if r.Code != moverreport.CodeOK || r.Result != "first-pass" || r.RecordedFiles == 0 {
		t.Fatalf("%+v", r)
	}
	r = child{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal}.run(t, user)
	if r.Code != moverreport.CodeOK || r.TrustedFiles == 0 || !r.Verified {
		t.Fatalf("%+v", r)
	}
}

func TestFirstPassFailsOnPermanentErrors(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 8)
	writeFile(t, src.dir+"/f", strings.Repeat("x", 20<<20))
	copyFails(t, firstPass(src.dir, dst.dir), moverreport.CodeNoSpace)
	o := firstPass(src.dir, dst.dir)
	o.hooks.source = func(string, string) error { return unix.EIO }
	copyFails(t, o, moverreport.CodeIO)
}

// The node, or a server, alters entries of the target after they were written. The final pass would fail for it, so the first pass does,
// also where it records nothing.
func TestFirstPassFailsForWhatFailsTheFinalPass(t *testing.T) {
	altered, wrong := moverreport.CodeNotFaithful, moverreport.CodeMismatch
	for name, c := range map[string]struct {
		alter func(dir string) error
		code  int
		want  string
	}{
		"nothing": {func(string) error { return nil }, moverreport.CodeOK, ""},
		"an attribute appears": {func(d string) error { return unix.Setxattr(d+"/f", "security.ima", []byte("x"), 0) }, altered,
			"extended attributes differ"},
		"another mode": {func(d string) error { return os.Chmod(d+"/f", 0o600) }, altered, "its mode is 0600, not 0644"},
		"another flag": {func(d string) error { return exec.Command("chattr", "+d", d+"/f").Run() }, altered,
			`inode flags (chattr) are "d"`},
		"mode of a directory": {func(d string) error { return os.Chmod(d+"/dir", 0o700) }, altered, "its mode is 0700, not 0755"},
		"attribute of a directory": {func(d string) error { return unix.Setxattr(d+"/dir", "user.a", []byte("x"), 0) }, altered,
			"extended attributes differ"},
		"attribute of the root": {func(d string) error { return unix.Setxattr(d, "user.a", []byte("x"), 0) }, wrong,
			"extended attributes differ"},
		"owner of a link": {func(d string) error { return os.Lchown(d+"/link", 5, 5) }, altered, "its owner is 5:5, not 0:0"},
		"owner of a fifo": {func(d string) error { return os.Lchown(d+"/fifo", 5, 5) }, altered, "its owner is 5:5, not 0:0"},
		"lost hard link":  {func(d string) error { return os.Remove(d + "/dir/hard") }, altered, "it has 1 names, not 2"},
		"separate hard link": {func(d string) error {
			return runAll("cp -a "+d+"/dir/hard "+d+"/dir/new", "mv "+d+"/dir/new "+d+"/dir/hard")
		}, altered, "it has 1 names, not 2"},
		"extra name": {func(d string) error { return os.WriteFile(d+"/dir/extra", nil, 0o644) }, wrong, "the source has no such entry"},
		"contents": {func(d string) error {
			return runAll("touch -r "+d+"/f "+d+"/stamp", "sh -c 'printf y >'"+d+"/f", "touch -r "+d+"/stamp "+d+"/f", "rm "+d+"/stamp")
		}, wrong, "its contents differ"},
	} {
		for _, trusted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, trusted %v", name, trusted), func(t *testing.T) {
				src, dst := newVolume(t, 64), newVolume(t, 64)
				must(t, os.Mkdir(src.dir+"/dir", 0o755))
				writeFile(t, src.dir+"/f", "x")
				writeFile(t, src.dir+"/dir/f", "x")
				must(t, os.Link(src.dir+"/dir/f", src.dir+"/dir/hard"))
				must(t, os.Symlink("f", src.dir+"/link"))
				must(t, unix.Mkfifo(src.dir+"/fifo", 0o644))
				waitSettled()
				o := firstPass(src.dir, dst.dir)
				if !trusted {
					o.hooks.fileSystem = func(fault.Side) int64 { return unix.TMPFS_MAGIC }
				}
				o.hooks.synced = func() { // the times of the directories stay, so that they are not the difference
					root, dir := mtime(t, dst.dir).UnixNano(), mtime(t, dst.dir+"/dir").UnixNano()
					must(t, c.alter(dst.dir))
					setTime(t, dst.dir+"/dir", dir)
					setTime(t, dst.dir, root)
				}
				if c.code == moverreport.CodeOK {
					if r := runFirstPass(t, o); (r.RecordedFiles > 0) != trusted {
						t.Errorf("%+v", r)
					}
				} else if e := copyFails(t, o, c.code); !strings.Contains(e.Message, c.want) {
					t.Error(e)
				}
			})
		}
	}
}

func runAll(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", c, err, out)
		}
	}
	return nil
}

// A bit that changes on the device before it was recorded fails the first pass. The next pass repairs it.
func TestFirstPassReadsTargetFromDevice(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	mark := []byte("the only place where these words stand")
	must(t, os.WriteFile(src.dir+"/bad", append(bytes.Repeat([]byte("."), 200_000), mark...), 0o644))
	waitSettled()
	o := firstPass(src.dir, dst.dir)
	o.hooks.synced = func() { corruptOnDevice(t, dst.image, mark) }
	if e := copyFails(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, `"bad"`) {
		t.Error(e)
	}
	if r := runFirstPass(t, firstPass(src.dir, dst.dir)); r.Files != 1 || r.RecordedFiles != 1 {
		t.Errorf("%+v", r)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
}

// A name is linked no longer, and its new file changes while the pass copies it. The target keeps the old link, which is no fault of the
// file with the other names. The final pass removes the link.
func TestFirstPassLeavesOutNameThatWasLinked(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	writeFile(t, src.dir+"/a", "linked")
	must(t, os.Link(src.dir+"/a", src.dir+"/b"))
	must(t, os.Link(src.dir+"/a", src.dir+"/c"))
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	must(t, replace(src.dir+"/c"))
	waitSettled()
	o := firstPass(src.dir, dst.dir)
	o.hooks.wrote = func(string, int64) { must(t, rewrite(src.dir+"/c")) }
	if r := runFirstPass(t, o); r.Changed == 0 {
		t.Fatalf("%+v", r)
	}
	if links := metaOfFile(t, dst.dir+"/a").Nlink; links != 3 {
		t.Fatalf("the file of the target has %d names", links)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// A process writes to the target between the passes. The inode shows it, and the final pass repairs the file.
func TestTargetChangedBetweenThePasses(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	newLive(t, r, src.dir)
	runFirstPass(t, firstPass(src.dir, dst.dir))
	must(t, rewrite(dst.dir+"/f3"))
	if r := copyTree(t, finalPass(src.dir, dst.dir)); r.Files != 1 || r.TrustedFiles != 28 {
		t.Errorf("%+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// However a first and a final pass are killed and run again, the result is the same.
func TestTwoPassesResumeAfterKill(t *testing.T) {
	r := seed.Random(t)
	for name, first := range map[string]child{
		"while it copies":            {KillAtFile: 9},
		"while it reads":             {KillAtRead: 9},
		"before the record's name":   {KillAtRecord: true},
		"not at all, but afterwards": {},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 64)
			w := newLive(t, r, src.dir)
			first.Source, first.Target, first.Pass = src.dir, dst.dir, tree.PassFirst
			died := first.try(t)
			for i := range 7 {
				must(t, rewrite(filepath.Join(w.dir, []string{"", "d", "d/e"}[(i+1)%3], fmt.Sprintf("f%d", i+1))))
			}
			for range 2 {
				if !(child{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal, KillAtFile: 2}).try(t) {
					t.Error("the child was not killed")
				}
			}
			final := copyTree(t, finalPass(src.dir, dst.dir))
			if (final.TrustedFiles > 0) == died {
				t.Errorf("killed: %v, %+v", died, final)
			}
			requireEqualTrees(t, src.dir, dst.dir)
			requireNoTemps(t, dst.dir)
		})
	}
}
