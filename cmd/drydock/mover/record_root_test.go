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

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/test/seed"
)

// A record that is foreign, incomplete or not trustworthy is ignored: the final pass verifies everything.
func TestInvalidRecordIsIgnored(t *testing.T) {
	flipped := func(at int) func(t *testing.T, path string, o *Options) {
		return func(t *testing.T, path string, o *Options) {
			b, err := os.ReadFile(path)
			must(t, err)
			b[(at+len(b))%len(b)] ^= 1
			must(t, os.WriteFile(path, b, 0o600))
		}
	}
	cut := func(to func(size int64) int64) func(t *testing.T, path string, o *Options) {
		return func(t *testing.T, path string, o *Options) {
			st, err := os.Stat(path)
			must(t, err)
			must(t, os.Truncate(path, to(st.Size())))
		}
	}
	src, dst := newVolume(t, 512), newVolume(t, 512)
	for name, invalidateRecord := range map[string]func(t *testing.T, path string, o *Options){
		"deleted":              func(t *testing.T, path string, o *Options) { must(t, os.Remove(path)) },
		"another version":      flipped(len(record.RecordMagic) - 3),
		"another identity":     flipped(len(record.RecordMagic)),
		"another count":        flipped(record.RecordHeadSize - 1),
		"another inode in it":  flipped(record.RecordHeadSize),
		"other contents in it": flipped(record.RecordHeadSize + 30),
		"another sum":          flipped(-1),
		"empty":                cut(func(int64) int64 { return 0 }),
		"torn in its head":     cut(func(int64) int64 { return 20 }),
		"torn":                 cut(func(size int64) int64 { return size / 2 }),
		"short by one entry":   cut(func(size int64) int64 { return size - record.RecordedSize }),
		"longer":               cut(func(size int64) int64 { return size + 1 }),
		"another operation":    func(t *testing.T, path string, o *Options) { o.Token = "op-2" },
		"a directory": func(t *testing.T, path string, o *Options) {
			must(t, firstError(os.Remove(path), os.Mkdir(path, 0o755)))
		},
		"another root": func(t *testing.T, path string, o *Options) {
			runCommand(t, "cp", "-a", o.Source, o.Source+"2")
			o.Source += "2"
		},
		"a network's source": func(t *testing.T, path string, o *Options) {
			o.hooks.fileSystem = func(s fault.Side) int64 { return []int64{unix.NFS_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC}[s] }
		},
		"a network's target": func(t *testing.T, path string, o *Options) {
			o.hooks.fileSystem = func(s fault.Side) int64 { return []int64{unix.EXT4_SUPER_MAGIC, unix.NFS_SUPER_MAGIC}[s] }
		},
		"an ordinary copy": func(t *testing.T, path string, o *Options) { o.Pass = tree.PassWhole },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(src.dir, name), filepath.Join(dst.dir, name)
			must(t, os.Mkdir(to, 0o755))
			r := seed.Random(t)
			w := newLive(t, r, from)
			if r := runFirstPass(t, firstPass(from, to)); r.RecordedFiles == 0 {
				t.Fatalf("%+v", r)
			}
			o := finalPass(from, to)
			invalidateRecord(t, o.Record, &o)
			if o.Pass == tree.PassFinal {
				must(t, rewrite(w.pick()))
			}
			result := copyTree(t, o)
			if result.TrustedFiles != 0 {
				t.Errorf("%+v", result)
			}
			requireEqualTrees(t, o.Source, to)
			requireNoTemps(t, to)
		})
	}
}

// steppedClock returns the readings of a clock that is set between the first two.
func steppedClock(step time.Duration) func() time.Duration {
	offset := -step
	return func() time.Duration { offset += step; return offset }
}

// A clock that is slewed, or set by less than a second, leaves the record valid.
func TestSmallStepOfClockKeepsRecord(t *testing.T) {
	for _, step := range []time.Duration{0, time.Second, -time.Second} {
		src, dst := newVolume(t, 64), newVolume(t, 64)
		r := seed.Random(t)
		newLive(t, r, src.dir)
		o := firstPass(src.dir, dst.dir)
		o.hooks.clockOffset = steppedClock(step)
		if r := runFirstPass(t, o); r.RecordedFiles == 0 || len(r.Warnings) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// If change times are not reliable, or the source cannot be flushed, nothing is recorded, and a warning says why.
func TestNothingIsRecordedWithoutReliableTimes(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(o *Options)
		want string
	}{
		"from a network": {func(o *Options) {
			o.hooks.fileSystem = func(s fault.Side) int64 { return []int64{unix.CEPH_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC}[s] }
		}, "the source's file system"},
		"without a flush": {func(o *Options) { o.hooks.flushed = func() error { return unix.EIO } }, "could not be flushed"},
		"with a clock set back": {func(o *Options) {
			o.hooks.clockOffset = steppedClock(-10 * time.Minute)
		}, "clock of this node was set by -10m0s"},
		"with a clock set forward": {func(o *Options) {
			o.hooks.clockOffset = steppedClock(1001 * time.Millisecond)
		}, "clock of this node was set by 1s"},
		"without a verification": {func(o *Options) { o.NoVerify = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 64)
			r := seed.Random(t)
			newLive(t, r, src.dir)
			o := firstPass(src.dir, dst.dir)
			c.set(&o)
			result := runFirstPass(t, o)
			if result.RecordedFiles != 0 || !strings.Contains(strings.Join(result.Warnings, " "), c.want) {
				t.Errorf("%+v", result)
			}
			if result := copyTree(t, finalPass(src.dir, dst.dir)); result.TrustedFiles != 0 {
				t.Errorf("%+v", result)
			}
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}

// Without a file, the record serves only the passes of the same process. A file that cannot be written costs only time.
func TestRecordStaysInMemoryWithoutFile(t *testing.T) {
	for _, path := range []string{"", t.TempDir() + "/missing/record"} {
		src, dst := newVolume(t, 64), newVolume(t, 64)
		r := seed.Random(t)
		newLive(t, r, src.dir)
		first, final := firstPass(src.dir, dst.dir), finalPass(src.dir, dst.dir)
		first.Record, final.Record = path, path
		last := runFirstPass(t, first)
		warned := strings.Contains(strings.Join(last.Warnings, " "), "could not be written")
		if warned != (path != "") || last.RecordedFiles == 0 {
			t.Errorf("%+v", last)
		}
		final.Last = last
		if r := copyTree(t, final); r.TrustedFiles == 0 {
			t.Errorf("%+v", r)
		}
		final.Last = Result{}
		if r := copyTree(t, final); r.TrustedFiles != 0 {
			t.Errorf("%+v", r)
		}
		requireEqualTrees(t, src.dir, dst.dir)
	}
}

// The mover has no name in user data besides its marker and its temporary names, and these may occur in the source.
func TestSourceMayHaveNamesOfMover(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	newLive(t, r, src.dir)
	writeFile(t, src.dir+"/"+target.TempPrefix+"pass.record", "x")
	waitSettled()
	runFirstPass(t, firstPass(src.dir, dst.dir))
	if r := copyTree(t, finalPass(src.dir, dst.dir)); r.TrustedFiles == 0 || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// The clock is set back between two passes, on a file system whose times have whole seconds. A job that runs at a fixed time of the day
// runs in the same second again, and writes other contents of the same size. The inode then looks as it was recorded. A step during a pass
// voids its record, and so must a step after it.
//
// The test cannot set the clock of its machine. It replaces the mover's reading of it, and writes the stamp that the kernel would write.
func TestStepOfClockBetweenPassesVoidsRecord(t *testing.T) {
	small := []string{"mkfs.ext4", "-q", "-F", "-I", "128"}
	src, dst := newVolume(t, 64, small...), newVolume(t, 64)
	writeFile(t, src.dir+"/report", "of the first run")
	setTime(t, src.dir+"/report", time.Now().Truncate(time.Second).UnixNano())
	time.Sleep(2200 * time.Millisecond)
	o := firstPass(src.dir, dst.dir)
	o.Settled = 1100 * time.Millisecond
	o.Mount = "the pod"
	o.hooks.clockOffset = func() time.Duration { return 0 }
	last := runFirstPass(t, o)
	if last.RecordedFiles != 1 {
		t.Fatalf("%+v", last)
	}
	before := metaOfFile(t, src.dir+"/report")

	// The clock is set back by an hour, the hour passes, and the job runs again.
	writeFile(t, src.dir+"/report", "of the other run")
	setTime(t, src.dir+"/report", before.MtimeSec*int64(time.Second))
	unmount(t, src.dir)
	stamp := time.Unix(before.CtimeSec, 0).UTC().Format("20060102150405")
	runCommand(t, "debugfs", "-w", "-R", fmt.Sprintf("set_inode_field report ctime %s", stamp), src.image)
	runCommand(t, "mount", "-o", "loop", src.image, src.dir)
	if now := metaOfFile(t, src.dir+"/report"); !sameBesidesDevice(now, before) {
		t.Fatalf("the stamp was not written: %+v, not %+v", now, before)
	}

	o.Pass = PassFinal
	o.hooks.clockOffset = func() time.Duration { return -time.Hour }
	r, err := Copy(context.Background(), o)
	have, rerr := os.ReadFile(dst.dir + "/report")
	must(t, rerr)
	if err == nil && r.Verified && !bytes.Equal(have, []byte("of the other run")) {
		t.Errorf("the copy counts as verified, and the target has %q", have)
	}
}

func sameBesidesDevice(a, b fsys.Meta) bool {
	a.Dev, b.Dev = 0, 0
	return a == b
}
