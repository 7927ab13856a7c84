//go:build linux && root

package mover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
)

// BenchmarkManyFiles measures the passes over many small files in directories of 1,000, with the source in memory.
// DRYDOCK_BENCH_FILES is their number.
func BenchmarkManyFiles(b *testing.B) {
	benchmarkPasses(b, numberFrom(b, "DRYDOCK_BENCH_FILES", 50_000), 1000)
}

// BenchmarkWideDirectory measures the passes over one directory. DRYDOCK_BENCH_WIDE is the number of its files.
func BenchmarkWideDirectory(b *testing.B) {
	n := numberFrom(b, "DRYDOCK_BENCH_WIDE", 50_000)
	benchmarkPasses(b, n, n)
}

// rsyncFiles and roundsFiles are the largest numbers of files with a run of rsync, and with several final passes. Both take long.
const (
	rsyncFiles  = 500_000
	roundsFiles = 2_000_000
)

func numberFrom(b *testing.B, variable string, standard int) int {
	s := os.Getenv(variable)
	if s == "" {
		return standard
	}
	n, err := strconv.Atoi(s)
	must(b, err)
	return n
}

// benchmarkPasses compares the passes with rsync and with a loop of statx calls, within one iteration. Each pass is a
// separate process. Source and targets are ext4 on loop devices. It reports:
//
//	rsync/copy    rsync -aHAX ÷ the copy without verification, both with the source in memory and with the flush
//	rsync/first   rsync -aHAX ÷ the first pass, which also verifies from the device and records
//	rsync/bare    rsync -aHAX ÷ a bare copy: the fewest calls that create the files with their contents, and the flush
//	rsync/bare+   rsync -aHAX ÷ a bare copy that is read back from the device
//	final/statx   the final pass without changes ÷ a loop that calls statx for each file of the source
//	final/both    the final pass without changes ÷ the same loop over source and target
func benchmarkPasses(b *testing.B, files, perDirectory int) {
	src := newVolumeFor(b, files)
	makeManyFiles(b, src.dir, files, perDirectory)
	waitSettled()
	figures := map[string][]float64{}
	add := func(name string, v float64) { figures[name] = append(figures[name], v) }
	for b.Loop() {
		readTree(b, src.dir)
		rsync, copied := 0.0, 0.0
		if files <= rsyncFiles {
			rsync = inNewVolume(b, files, func(to string) { runCommand(b, "rsync", "-aHAX", src.dir+"/.", to) })
			var bare float64
			readBack := inNewVolume(b, files, func(to string) {
				began := time.Now()
				bareCopy(b, src.dir, to)
				flush(b, to)
				bare = time.Since(began).Seconds()
				bareRead(b, to)
			})
			add("rsync/bare", rsync/bare)
			add("rsync/bare+", rsync/readBack)
			copied = inNewVolume(b, files, func(to string) { measured{Source: src.dir, Target: to, NoVerify: true}.run(b) })
		}
		dst := newVolumeFor(b, files)
		first := measured{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}.run(b)
		if first.Result.RecordedFiles != int64(files) {
			b.Fatalf("%d files are recorded, not %d", first.Result.RecordedFiles, files)
		}
		if files <= rsyncFiles {
			add("rsync-s", rsync)
			add("rsync/copy", rsync/copied)
			add("rsync/first", rsync/first.Seconds)
		}
		add("first-files/s", float64(files)/first.Seconds)
		add("first-peak-MiB", first.Peak)
		rounds := 3
		if files > roundsFiles {
			rounds = 1
		}
		for range rounds {
			one := []string{src.dir}
			both := []string{src.dir, dst.dir}
			loop, loops := statLoop(b, one, files), statLoop(b, both, files)
			final := measured{Source: src.dir, Target: dst.dir, Pass: tree.PassFinal, Profile: os.Getenv("DRYDOCK_BENCH_PROFILE")}.run(b)
			if final.Result.TrustedFiles != int64(files) {
				b.Fatalf("%d files are trusted, not %d", final.Result.TrustedFiles, files)
			}
			loop = (loop + statLoop(b, one, files)) / 2
			loops = (loops + statLoop(b, both, files)) / 2
			b.Logf("statx loop: %.2f s, both sides %.2f s", loop, loops)
			add("final/statx", final.Seconds/loop)
			add("final/both", final.Seconds/loops)
			add("final-files/s", float64(files)/final.Seconds)
			add("statx-files/s", float64(files)/loop)
			add("final-peak-MiB", final.Peak)
			measured{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}.run(b) // the final pass has deleted the record
			again := measured{Source: src.dir, Target: dst.dir, Pass: tree.PassFirst}.run(b)
			add("repeat-files/s", float64(files)/again.Seconds)
			add("repeat-peak-MiB", again.Peak)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, values := range figures {
		b.ReportMetric(median(values), name)
	}
}

// newVolumeFor creates a volume for a number of small files.
func newVolumeFor(b *testing.B, files int) volume {
	b.Helper()
	inodes := strconv.Itoa(files + files/50 + 4096)
	// Without large_dir, a directory with blocks of 1 KiB is full at some 300,000 files.
	return newVolume(b, 256+files/400, "mkfs.ext4", "-q", "-F", "-b", "1024", "-N", inodes, "-E", "lazy_itable_init=0", "-O", "large_dir")
}

// inNewVolume returns the seconds that a copy into a new volume takes, including the flush.
func inNewVolume(b *testing.B, files int, copyTo func(dir string)) (seconds float64) {
	b.Helper()
	base := newVolumeFor(b, files)
	unix.Sync()
	began := time.Now()
	copyTo(base.dir)
	flush(b, base.dir)
	seconds = time.Since(began).Seconds()
	b.Logf("%.2f s with the flush", seconds)
	runCommand(b, "umount", base.dir)
	must(b, os.Remove(base.image))
	runCommand(b, "mount", "-t", "tmpfs", "tmpfs", base.dir) // the cleanup unmounts it
	return seconds
}

// makeManyFiles writes files of 100 to 900 bytes.
func makeManyFiles(b *testing.B, root string, files, perDirectory int) {
	b.Helper()
	contents := bytes.Repeat([]byte("0123456789"), 90)
	for i := 0; i < files; i++ {
		dir := filepath.Join(root, fmt.Sprintf("dir%05d", i/perDirectory))
		if i%perDirectory == 0 {
			must(b, os.Mkdir(dir, 0o755))
		}
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%07d", i)), contents[i%90:100+i*7%800], 0o644))
	}
}

// readTree reads all files once, so that they are in memory.
func readTree(b *testing.B, root string) {
	b.Helper()
	treeDigest(b, root)
}

// statLoop returns how long one statx of each file takes, with a worker for each CPU. A worker without a directory takes names of
// a large one. It is the least that a program can do to find changes.
func statLoop(b *testing.B, roots []string, files int) float64 {
	b.Helper()
	began := time.Now()
	for _, root := range roots {
		names, err := filepath.Glob(root + "/dir*")
		must(b, err)
		dirs, shared := make(chan string, len(names)), make(chan direntBatch)
		for _, n := range names {
			dirs <- n
		}
		close(dirs)
		var seen atomic.Int64
		var readers, workers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			readers.Add(1)
			workers.Go(func() {
				n := 0
				for dir := range dirs {
					n += statDir(b, dir, shared)
				}
				readers.Done()
				for batch := range shared {
					n += batch.stat()
				}
				seen.Add(int64(n))
			})
		}
		readers.Wait()
		close(shared)
		workers.Wait()
		if seen.Load() != int64(files) {
			b.Fatalf("the loop saw %d files, not %d", seen.Load(), files)
		}
	}
	return time.Since(began).Seconds()
}

// direntBatch is the answer of one getdents call.
type direntBatch struct {
	fd   int
	data []byte
	done func()
}

func (d direntBatch) stat() (files int) {
	var x unix.Statx_t
	fsys.EachDirent(d.data, func(name []byte, _ uint32) {
		name = name[:len(name)+1] // with its NUL
		if fsys.StatTerminated(d.fd, &name[0], &x) == nil {
			files++
		}
	})
	d.done()
	return files
}

// statDir calls statx for the names of a directory that no idle worker takes from shared. It returns their number.
func statDir(b *testing.B, dir string, shared chan<- direntBatch) (files int) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer unix.Close(fd)
	var users sync.WaitGroup
	defer users.Wait()
	buf := make([]byte, 256<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return files
		}
		users.Add(1)
		batch := direntBatch{fd, buf[:n], users.Done}
		select {
		case shared <- batch:
			buf = make([]byte, len(buf))
		default:
			files += batch.stat()
		}
	}
}

// run runs the pass, which must succeed.
func (m measured) run(t testing.TB) measurement {
	t.Helper()
	spec, err := json.Marshal(m)
	must(t, err)
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), "MOVER_BENCH_CHILD="+string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	var r measurement
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	t.Logf("pass %d, verified %v: %.2f s, %.2f s of CPU, %.0f MiB", m.Pass, !m.NoVerify, r.Seconds, r.CPU, r.Peak)
	return r
}
