//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// device returns the name of the loop device of a volume.
func (v volume) device(t testing.TB) string {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(v.dir, &st))
	link, err := os.Readlink("/sys/dev/block/" + strconv.Itoa(int(unix.Major(st.Dev))) + ":" + strconv.Itoa(int(unix.Minor(st.Dev))))
	must(t, err)
	return filepath.Base(link)
}

// bytesRead returns how many bytes were ever read from the device of a volume.
func (v volume) bytesRead(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/sys/block/" + v.device(t) + "/stat")
	must(t, err)
	n, err := strconv.ParseInt(strings.Fields(string(text))[2], 10, 64)
	must(t, err)
	return n * 512
}

func dropCaches(t testing.TB) {
	t.Helper()
	unix.Sync()
	must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
}

// hotPass is a first pass over files that are too young to be recorded.
func hotPass(src, dst string) Options {
	o := firstPass(src, dst)
	o.Settled = time.Hour
	return o
}

// The final pass reads the source once, and of the target little more than the blocks that it writes.
func TestFinalPassReadsOnlyChangedPartsOfHotFileInTarget(t *testing.T) {
	src, dst := newVolume(t, 256), newVolume(t, 256)
	r := seed.Random(t)
	const size, changes = 96 << 20, 50
	writeRandomFile(t, r, src.dir+"/db", size)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	if last.RecordedFiles != 0 {
		t.Fatalf("the file is recorded: %+v", last)
	}
	for pass := range 3 {
		changeBytes(t, r, src.dir+"/db", changes)
		dropCaches(t)
		fromSource, fromTarget := src.bytesRead(t), dst.bytesRead(t)
		o := hotPass(src.dir, dst.dir)
		if pass == 2 {
			o = finalPass(src.dir, dst.dir)
		}
		o.Last = last
		result, err := Copy(context.Background(), o)
		must(t, err)
		last = result
		fromSource, fromTarget = src.bytesRead(t)-fromSource, dst.bytesRead(t)-fromTarget
		t.Logf("read %d KiB of the source, %d KiB of the target, wrote %d KiB", fromSource>>10, fromTarget>>10, result.Bytes>>10)
		if result.Bytes != changes*units.CompareBlock {
			t.Errorf("it wrote %d bytes", result.Bytes)
		}
		if fromSource > size*11/10 {
			t.Errorf("it read %d bytes of the source", fromSource)
		}
		if fromTarget > 4*changes*units.Size+(2<<20) { // each unit twice, with read-ahead
			t.Errorf("it read %d bytes of the target", fromTarget)
		}
	}
	if !last.Verified {
		t.Errorf("%+v", last)
	}
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

// A recorded file that changes just before the end has kept hashes, too.
func TestRecordedFileThatChangesHasKeptHashes(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 40<<20+777)
	waitSettled()
	last := runFirstPass(t, firstPass(src.dir, dst.dir))
	if last.RecordedFiles != 1 || last.Figures.Remaining != (forecast.Work{}) {
		t.Fatalf("%+v", last)
	}
	o := firstPass(src.dir, dst.dir)
	o.Last = last
	last = runFirstPass(t, o) // trusts the record, and takes the hashes over
	changeBytes(t, r, src.dir+"/db", 7)
	dropCaches(t)
	before := dst.bytesRead(t)
	o = finalPass(src.dir, dst.dir)
	o.Last = last
	result, err := Copy(context.Background(), o)
	must(t, err)
	if n := dst.bytesRead(t) - before; n > 4<<20 || result.Bytes != 7*units.CompareBlock {
		t.Errorf("it read %d bytes of the target, %+v", n, result)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// The final pass reads the written units from the device again.
func TestWrittenUnitsAreVerifiedFromDevice(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 8<<20)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	mark := []byte("the only place where these words stand")
	f, err := os.OpenFile(src.dir+"/db", os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(mark, 5<<20)
	must(t, err)
	must(t, f.Close())
	o := finalPass(src.dir, dst.dir)
	o.Last = last
	o.hooks.synced = func() { corruptOnDevice(t, dst.image, mark) }
	if e := copyFails(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, `"db"`) {
		t.Error(e)
	}
	o.hooks.synced = nil
	copyTree(t, o)
	requireEqualTrees(t, src.dir, dst.dir)
}

// A block that was wrong on the device when the first pass read it has another hash than the source. The next pass writes
// it.
func TestKeptHashesAreOfDevice(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	contents := writeRandomFile(t, r, src.dir+"/db", 8<<20)
	o := hotPass(src.dir, dst.dir)
	o.hooks.synced = func() { corruptOnDevice(t, dst.image, contents[5<<20:5<<20+64]) }
	last := runFirstPass(t, o)
	changeBytes(t, r, src.dir+"/db", 2)
	o = finalPass(src.dir, dst.dir)
	o.Last = last
	if result := copyTree(t, o); result.Bytes != 3*units.CompareBlock {
		t.Errorf("%+v", result)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// A process writes to the target between the passes. The inode shows it, and the hashes do not count any more.
func TestKeptHashesEndWithChangeOfTarget(t *testing.T) {
	for name, change := range map[string]func(path string){
		"written to": func(path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			st, err := f.Stat()
			must(t, err)
			_, err = f.WriteAt([]byte("foreign"), 3<<20)
			must(t, err)
			must(t, f.Close())
			must(t, os.Chtimes(path, st.ModTime(), st.ModTime())) // only ctime shows it
		},
		"replaced": func(path string) {
			must(t, os.WriteFile(path+"2", bytes.Repeat([]byte("x"), 8<<20), 0o644))
			must(t, os.Rename(path+"2", path))
		},
		"removed": func(path string) { must(t, os.Remove(path)) },
		"shorter": func(path string) { must(t, os.Truncate(path, 2<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 64)
			r := seed.Random(t)
			writeRandomFile(t, r, src.dir+"/db", 8<<20)
			last := runFirstPass(t, hotPass(src.dir, dst.dir))
			change(dst.dir + "/db")
			changeBytes(t, r, src.dir+"/db", 2)
			o := finalPass(src.dir, dst.dir)
			o.Last = last
			copyTree(t, o)
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}

// The source changes while the final pass reads it by units.
func TestSourceThatChangesDuringUnitsFails(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 8<<20)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	changeBytes(t, r, src.dir+"/db", 2)
	for _, set := range []func(o *Options, change func()){
		func(o *Options, change func()) { o.hooks.copying = func(string) { change() } },
		func(o *Options, change func()) { o.hooks.synced = change },
	} {
		o := finalPass(src.dir, dst.dir)
		o.Last = last
		set(&o, func() { changeBytes(t, r, src.dir+"/db", 1) })
		copyFails(t, o, moverreport.CodeSourceChanged)
	}
	copyTree(t, finalPass(src.dir, dst.dir))
	requireEqualTrees(t, src.dir, dst.dir)
}

// A file that always changes while it is copied keeps hashes, because they are of the target.
func TestFileThatAlwaysChangesKeepsHashes(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	writeRandomFile(t, r, src.dir+"/db", 16<<20)
	last := Result{}
	for range 3 {
		o := firstPass(src.dir, dst.dir)
		o.Last = last
		o.hooks.copying = func(path string) { changeBytes(t, r, src.dir+"/"+path, 1) }
		if last = runFirstPass(t, o); last.Changed < 1 || last.RecordedFiles != 0 || len(last.state.Kept) != 1 {
			t.Fatalf("%+v", last)
		}
	}
	changeBytes(t, r, src.dir+"/db", 10)
	dropCaches(t)
	before := dst.bytesRead(t)
	o := finalPass(src.dir, dst.dir)
	o.Last = last
	result, err := Copy(context.Background(), o)
	must(t, err)
	if n := dst.bytesRead(t) - before; n > 5<<20 {
		t.Errorf("it read %d bytes of the target, %+v", n, result)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// The memory for the hashes is bounded.
func TestKeptHashesAreBounded(t *testing.T) {
	var k units.Keeper
	if k.Reserve(units.MaxKept*units.Size+1) != nil {
		t.Error("there is room for more than the limit")
	}
	first := k.Reserve(units.MaxKept * units.Size / 2)
	if first == nil || k.Reserve(units.MaxKept*units.Size/2+1) != nil {
		t.Error("the limit is not that of all files")
	}
	k.Drop(first)
	if k.Reserve(units.MaxKept*units.Size/2+1) == nil {
		t.Error("there is no room after one is dropped")
	}
}

// The final pass does not use the hashes of a file that has grown so much, so the forecast must not, either.
func TestForecastKnowsThatKeptHashesDoNotSuffice(t *testing.T) {
	src, dst := newVolume(t, 200), newVolume(t, 200)
	r := seed.Random(t)
	content := writeRandomFile(t, r, src.dir+"/db", 20<<20)
	last := runFirstPass(t, hotPass(src.dir, dst.dir))
	f, err := os.OpenFile(src.dir+"/db", os.O_RDWR|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	for _, suffice := range []bool{true, false} {
		_, err = f.Write(content[:12<<20])
		must(t, err)
		figures, err := Survey(context.Background(), firstPass(src.dir, dst.dir), last)
		must(t, err)
		if kept := figures.Remaining.Kept > 0; kept != suffice {
			t.Errorf("%+v", figures.Remaining)
		}
	}
	o := finalPass(src.dir, dst.dir)
	o.Last = last
	c, err := newCopier(o)
	must(t, err)
	defer c.close()
	must(t, c.run(context.Background(), o))
	if len(c.keeper.Patched) > 0 {
		t.Errorf("the final pass has used hashes of less than half of the file")
	}
}
