//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// newDevice creates a loop device with random contents between zeros.
func newDevice(t testing.TB, r *rand.Rand, size int64) (device, image string) {
	t.Helper()
	needRoot(t)
	image = filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	must(t, err)
	must(t, f.Truncate(size))
	for range 20 {
		b := make([]byte, 1+r.IntN(200_000))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		_, err := f.WriteAt(b, r.Int64N(max(1, size-int64(len(b)))))
		must(t, err)
	}
	must(t, f.Truncate(size))
	must(t, f.Close())
	device = strings.TrimSpace(runCommand(t, "losetup", "--find", "--show", image))
	t.Cleanup(func() { runCommand(t, "losetup", "-d", device) })
	return device, image
}

func copyDevice(t testing.TB, o Options) Result {
	t.Helper()
	r, err := CopyDevice(context.Background(), o)
	must(t, err)
	return r
}

func deviceCopyFails(t testing.TB, o Options, code int) *fault.Error {
	t.Helper()
	r, err := CopyDevice(context.Background(), o)
	e := new(fault.Error)
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want code %d, got %v, %+v", code, err, r)
	}
	return e
}

// requireSamePrefix fails unless b begins with the contents of a.
func requireSamePrefix(t testing.TB, a, b string, size int64) {
	t.Helper()
	want, err := os.ReadFile(a)
	must(t, err)
	got, err := os.ReadFile(b)
	must(t, err)
	if int64(len(want)) != size || !bytes.Equal(want, got[:size]) {
		t.Fatalf("%s does not begin with the contents of %s", b, a)
	}
}

func TestDeviceCopy(t *testing.T) {
	r := seed.Random(t)
	const size = 37<<20 + 512
	src, _ := newDevice(t, r, size)
	dst, _ := newDevice(t, r, size+9<<20)
	var phases []moverreport.Phase
	var last moverreport.Progress
	first := copyDevice(t, Options{Source: src, Target: dst, Workers: 3, Progress: func(p moverreport.Progress) {
		phases, last = append(phases, p.Phase), p
	}})
	requireSamePrefix(t, src, dst, size)
	if first.Files != 1 || first.Bytes == 0 || first.Bytes > size/2 || len(phases) != 4 || last.BytesTotal != size {
		t.Errorf("%+v %v %+v", first, phases, last)
	}
	again := copyDevice(t, Options{Source: src, Target: dst})
	if again.Bytes != 0 || again.Files != 0 || again.Skipped != 1 || !first.Verified || !again.Verified {
		t.Errorf("%+v", again)
	}
}

// A first pass tolerates changes and does not verify. The final pass writes the differences, including zeros.
func TestDeviceInTwoPasses(t *testing.T) {
	r := seed.Random(t)
	const size = 24 << 20
	src, _ := newDevice(t, r, size)
	dst, _ := newDevice(t, r, size)
	f, err := os.OpenFile(src, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	o := Options{Source: src, Target: dst, Pass: tree.PassFirst}
	o.hooks.wrote = func(string, int64) { _, err := f.WriteAt([]byte("changed"), 5000); must(t, err) }
	if first := copyDevice(t, o); first.Verified || first.Bytes == 0 {
		t.Errorf("%+v", first)
	}
	_, err = f.WriteAt(make([]byte, 8192), 8<<20)
	must(t, err)
	_, err = f.WriteAt([]byte("end"), size-3)
	must(t, err)
	final := copyDevice(t, Options{Source: src, Target: dst, Pass: tree.PassFinal})
	if final.Bytes > 5*units.CompareBlock || !final.Verified {
		t.Errorf("%+v", final)
	}
	requireSamePrefix(t, src, dst, size)
}

func TestDeviceFailures(t *testing.T) {
	r := seed.Random(t)
	src, srcImage := newDevice(t, r, 8<<20)
	dst, dstImage := newDevice(t, r, 8<<20)
	small, _ := newDevice(t, r, 4<<20)
	e := deviceCopyFails(t, Options{Source: src, Target: small}, moverreport.CodeNoSpace)
	if !strings.Contains(e.Message, "8388608 bytes, the target device 4194304") {
		t.Error(e)
	}
	deviceCopyFails(t, Options{Source: src, Target: src}, moverreport.CodeUsage)
	deviceCopyFails(t, Options{Source: src, Target: t.TempDir()}, moverreport.CodeUsage)
	deviceCopyFails(t, Options{Source: srcImage, Target: dst}, moverreport.CodeUsage)
	deviceCopyFails(t, Options{Source: src + "-no", Target: dst}, moverreport.CodeUsage)

	o := Options{Source: src, Target: dst}
	o.hooks.synced = func() { corrupt(t, dstImage, 6<<20) }
	if e := deviceCopyFails(t, o, moverreport.CodeMismatch); !strings.Contains(e.Message, "between the bytes 4194304 and 8388608") {
		t.Error(e)
	}
	copyDevice(t, Options{Source: src, Target: dst})
	o.hooks.synced = func() { corrupt(t, src, 77) }
	deviceCopyFails(t, o, moverreport.CodeSourceChanged)
	copyDevice(t, Options{Source: src, Target: dst})
	requireSamePrefix(t, src, dst, 8<<20)
}

// corrupt changes a byte after it was read.
func corrupt(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := []byte{0}
	_, err = f.ReadAt(b, at)
	must(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	must(t, err)
}

// A mounted target is in use.
func TestMountedDeviceIsRefused(t *testing.T) {
	r := seed.Random(t)
	src, _ := newDevice(t, r, 8<<20)
	v := newVolume(t, 32)
	mounted := strings.TrimSpace(runCommand(t, "findmnt", "-n", "-o", "SOURCE", v.dir))
	if e := deviceCopyFails(t, Options{Source: src, Target: mounted}, moverreport.CodeIO); !errors.Is(e, unix.EBUSY) {
		t.Error(e)
	}
}
