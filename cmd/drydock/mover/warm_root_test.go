//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

func settle() { time.Sleep(settled + 20*time.Millisecond) }

// warmTree runs a warm pass that must succeed.
func warmTree(t testing.TB, o Options) Result {
	t.Helper()
	r, err := Copy(context.Background(), o)
	if err != nil || r.Digest != "" {
		t.Fatalf("warm: %+v: %v", r, err)
	}
	return r
}

// One change of each kind between the passes: it is found, and nothing else is read.
// Invariants: I1.
func TestFinalPassFindsEachChange(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	_, r := newSeed(t)
	for i, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			from, to := filepath.Join(src.dir, fmt.Sprint(i)), filepath.Join(dst.dir, fmt.Sprint(i))
			must(t, os.MkdirAll(to, 0o755))
			w := newLive(t, r, from)
			if r := warmTree(t, warmOf(from, to)); r.RecordedFiles != 26 || r.RecordedBytes == 0 || r.Changed != 0 {
				t.Fatalf("%+v", r)
			}
			must(t, c.do(w))
			final := copyTree(t, finalOf(from, to))
			if final.TrustedFiles < 16 || final.TrustedFiles > 29 || final.TrustedBytes == 0 {
				t.Errorf("%+v", final)
			}
			referee(t, from, to)
			noTemps(t, to)
		})
	}
}

// Whatever is done to the source during the warm pass and after it, the final pass makes a copy and says its digest.
// Invariants: I1.
func TestTwoPassesOverALiveSource(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	_, r := newSeed(t)
	trusted := int64(0)
	for i := range 25 {
		from, to := filepath.Join(src.dir, fmt.Sprint(i)), filepath.Join(dst.dir, fmt.Sprint(i))
		must(t, os.MkdirAll(to, 0o755))
		w := newLive(t, r, from)
		for range 1 + r.IntN(2) {
			o := warmOf(from, to)
			o.Workers = 1 + r.IntN(4)
			some := w.sometimes(5 + r.IntN(60))
			o.hooks.copying = func(string) { some() }
			o.hooks.wrote = func(string, int64) { some() }
			o.hooks.confirmed = func(string) { some() }
			o.hooks.synced = some
			warmTree(t, o)
			for range r.IntN(5) {
				w.change()
			}
		}
		if r.IntN(4) == 0 {
			child{Source: from, Target: to, Pass: PassFinal, KillAtFile: 1 + r.Int64N(4)}.try(t)
		}
		final := copyTree(t, finalOf(from, to))
		trusted += final.TrustedFiles
		referee(t, from, to)
		noTemps(t, to)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d files of about 650 were trusted", trusted)
	if trusted < 100 {
		t.Error("hardly anything was trusted")
	}
}

// try runs a child that may or may not come to where it kills itself.
func (c child) try(t *testing.T) bool {
	t.Helper()
	return killed(t, c, 0)
}

// Without flushing the source before, what is written through a mapping is missed. This shows that the tests above see it.
func TestWithoutFlushingAMappingIsMissed(t *testing.T) {
	for _, unsettled := range []bool{true, false} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		_, r := newSeed(t)
		w := newLive(t, r, src.dir)
		o := warmOf(src.dir, dst.dir)
		o.hooks.unsettled = unsettled
		warmTree(t, o)
		w.mapped[0][17]++
		result, err := Copy(context.Background(), finalOf(src.dir, dst.dir))
		must(t, err)
		want, err := Digest(context.Background(), src.dir, 2)
		must(t, err)
		if missed := result.Digest != want; missed != unsettled {
			t.Errorf("without the rule: %v, missed: %v", unsettled, missed)
		}
	}
}

// The same on other file systems, and where times have a grain of a second.
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
			_, r := newSeed(t)
			w := newLive(t, r, src.dir)
			time.Sleep(c.settled)
			o := warmOf(src.dir, dst.dir)
			o.Settled = c.settled
			some := w.sometimes(20)
			o.hooks.confirmed = func(string) { some() }
			warmTree(t, o)
			w.mapped[0][17]++
			w.mapped[1][17]++
			must(t, rewrite(w.pick()))
			o = finalOf(src.dir, dst.dir)
			o.Settled = c.settled
			if r := copyTree(t, o); r.TrustedFiles == 0 {
				t.Errorf("%+v", r)
			}
			referee(t, src.dir, dst.dir)
		})
	}
}

// On tmpfs a mapping that was written to once never leaves a trace again. So it is not among the file systems that are
// believed.
func TestMappingsOnTmpfs(t *testing.T) {
	needRoot(t)
	dir, dst := t.TempDir(), newVolume(t, 32)
	sh(t, "mount", "-t", "tmpfs", "tmpfs", dir)
	t.Cleanup(func() { sh(t, "umount", dir) })
	_, r := newSeed(t)
	w := newLive(t, r, dir)
	if r := warmTree(t, warmOf(dir, dst.dir)); r.RecordedFiles != 0 || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
	var before, after unix.Stat_t
	must(t, unix.Stat(dir+"/mapped0", &before))
	w.mapped[0][17]++
	must(t, unix.Stat(dir+"/mapped0", &after))
	if metaOf(&before) != metaOf(&after) {
		t.Log("this kernel shows it")
	}
}

// A warm pass comes through whatever happens at once to its source.
func TestWarmPassesUnderLoad(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	_, r := newSeed(t)
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
		changed += warmTree(t, warmOf(src.dir, dst.dir)).Changed
	}
	close(stop)
	<-done
	t.Logf("%d times something was changed while it was looked at", changed)
	copyTree(t, finalOf(src.dir, dst.dir))
	referee(t, src.dir, dst.dir)
}

// What was changed a moment ago may be changing still.
func TestYoungFilesAreNotRecorded(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	write(t, src.dir+"/f", "x")
	o := warmOf(src.dir, dst.dir)
	o.Settled = 0 // the default
	if r := warmTree(t, o); r.RecordedFiles != 0 {
		t.Errorf("%+v", r)
	}
	if r := copyTree(t, finalOf(src.dir, dst.dir)); r.TrustedFiles != 0 {
		t.Errorf("%+v", r)
	}
}

// As in a cluster: the mover sees the volume read-only, the workload writes to it.
func TestWarmPassFromAReadOnlyMount(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	_, r := newSeed(t)
	w := newLive(t, r, src.dir)
	view := t.TempDir()
	sh(t, "mount", "--bind", src.dir, view)
	defer sh(t, "umount", view)
	sh(t, "mount", "-o", "remount,bind,ro", view)
	if r := warmTree(t, warmOf(view, dst.dir)); r.RecordedFiles == 0 || len(r.Warnings) != 0 {
		t.Fatalf("%+v", r)
	}
	w.mapped[0][1]++
	must(t, rewrite(src.dir+"/f0"))
	if r := copyTree(t, finalOf(view, dst.dir)); r.Files != 3 || r.TrustedFiles != 26 {
		t.Errorf("%+v", r) // f0 has another name
	}
	referee(t, src.dir, dst.dir)
}

// A second warm pass reads only what the first has not recorded, and records all of it.
func TestWarmPassesAddUp(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	_, r := newSeed(t)
	newLive(t, r, src.dir)
	first := warmTree(t, warmOf(src.dir, dst.dir))
	must(t, rewrite(src.dir+"/f0"))
	settle()
	second := warmTree(t, warmOf(src.dir, dst.dir))
	if second.TrustedFiles != first.RecordedFiles-1 || second.RecordedFiles != first.RecordedFiles {
		t.Errorf("%+v, then %+v", first, second)
	}
	if r := copyTree(t, finalOf(src.dir, dst.dir)); r.TrustedFiles != 29 || r.Files != 0 {
		t.Errorf("%+v", r)
	}
}

// A file that cannot be reproduced is found before anything is stopped.
func TestWarmPassFindsWhatWillFail(t *testing.T) {
	src, dst := volumes(t)
	must(t, os.Chmod(src.dir+"/data/table", 0))
	r := child{Source: src.dir, Target: dst.dir, Pass: PassWarm}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful || !strings.Contains(r.Message, `opening "data/table" of the source: permission denied`) {
		t.Errorf("%+v", r)
	}
	must(t, os.Chmod(src.dir+"/data/table", 0o600))
	settle()
	if r = (child{Source: src.dir, Target: dst.dir, Pass: PassWarm}).run(t, user); r.Code != moverreport.CodeOK || r.Result != "warmed" || r.RecordedFiles == 0 {
		t.Fatalf("%+v", r)
	}
	if r = (child{Source: src.dir, Target: dst.dir, Pass: PassFinal}).run(t, user); r.Code != moverreport.CodeOK || r.TrustedFiles == 0 || r.Digest == "" {
		t.Fatalf("%+v", r)
	}
}

func TestWarmPassFailsOnErrorsThatStay(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 8)
	write(t, src.dir+"/f", strings.Repeat("x", 20<<20))
	failing(t, warmOf(src.dir, dst.dir), moverreport.CodeNoSpace)
	o := warmOf(src.dir, dst.dir)
	o.hooks.source = func(string, string) error { return unix.EIO }
	failing(t, o, moverreport.CodeIO)
}

// A bit that rots before it was recorded fails the warm pass, and the next one repairs it.
func TestWarmPassReadsTheDevice(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	mark := []byte("the only place where these words stand")
	must(t, os.WriteFile(src.dir+"/bad", append(bytes.Repeat([]byte("."), 200_000), mark...), 0o644))
	settle()
	o := warmOf(src.dir, dst.dir)
	o.hooks.synced = func() { flip(t, dst.image, mark) }
	if e := failing(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, `"bad"`) {
		t.Error(e)
	}
	if r := warmTree(t, warmOf(src.dir, dst.dir)); r.Files != 1 || r.RecordedFiles != 1 {
		t.Errorf("%+v", r)
	}
	copyTree(t, finalOf(src.dir, dst.dir))
}

// Something writes to the target between the passes: seen by its inode, and repaired.
func TestTargetChangedBetweenThePasses(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	_, r := newSeed(t)
	newLive(t, r, src.dir)
	warmTree(t, warmOf(src.dir, dst.dir))
	must(t, rewrite(dst.dir+"/f3"))
	if r := copyTree(t, finalOf(src.dir, dst.dir)); r.Files != 1 || r.TrustedFiles != 28 {
		t.Errorf("%+v", r)
	}
	referee(t, src.dir, dst.dir)
}

// Killed anywhere, run again, a warm and a final pass come to the same end.
func TestTwoPassesResumeAfterKill(t *testing.T) {
	_, r := newSeed(t)
	for name, warm := range map[string]child{
		"while it copies":            {KillAtFile: 9},
		"while it reads":             {KillAtRead: 9},
		"before the record's name":   {KillAtRecord: true},
		"not at all, but afterwards": {},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 64)
			w := newLive(t, r, src.dir)
			warm.Source, warm.Target, warm.Pass = src.dir, dst.dir, PassWarm
			died := warm.try(t)
			for i := range 7 {
				must(t, rewrite(filepath.Join(w.dir, []string{"", "d", "d/e"}[(i+1)%3], fmt.Sprintf("f%d", i+1))))
			}
			for range 2 {
				if !(child{Source: src.dir, Target: dst.dir, Pass: PassFinal, KillAtFile: 2}).try(t) {
					t.Error("it was to be killed")
				}
			}
			final := copyTree(t, finalOf(src.dir, dst.dir))
			if (final.TrustedFiles > 0) == died {
				t.Errorf("killed: %v, %+v", died, final)
			}
			referee(t, src.dir, dst.dir)
			noTemps(t, dst.dir)
		})
	}
}
