//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// failDevice stops the file system at once, as it does after an error of its device. Nothing more is written to its journal.
func (v volume) failDevice(t *testing.T) {
	t.Helper()
	const shutdown, noFlush = 0x8004587d, uint32(2) // EXT4_IOC_SHUTDOWN (linux fs/ext4/ext4.h), XFS_IOC_GOINGDOWN (fs/xfs/libxfs/xfs_fs.h)
	d, err := os.Open(v.dir)
	must(t, err)
	defer d.Close()
	how := noFlush
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Fatal(errno)
	}
}

// The device of the source fails and comes back, and the node keeps running. A database had made a write durable with fdatasync,
// which commits no change time: the file has new contents and its old inode. A mover in another pod reads it.
func TestFileSystemThatWasMountedAgainIsReadAgain(t *testing.T) {
	for name, mkfs := range holesFileSystems {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)
			r := seed.Random(t)
			wal := src.dir + "/wal"
			writeRandomFile(t, r, wal, 2<<20)
			unix.Sync()
			waitSettled()
			o := firstPass(src.dir, dst.dir)
			o.Mount = "the first mover's pod"
			if last := runFirstPass(t, o); last.RecordedFiles != 1 {
				t.Fatalf("%+v", last)
			}
			before := metaOfFile(t, wal)
			f, err := os.OpenFile(wal, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("an acknowledged transaction"), 1<<20)
			must(t, err)
			must(t, unix.Fdatasync(int(f.Fd())))
			must(t, f.Close())
			src.failDevice(t)
			unmount(t, src.dir)
			runCommand(t, "mount", "-o", "loop", src.image, src.dir)
			want, err := os.ReadFile(wal)
			must(t, err)
			if !bytes.Contains(want, []byte("acknowledged")) || metaOfFile(t, wal) != before {
				t.Fatal("the write was lost, or its change time was kept: the test shows nothing")
			}
			o = finalPass(src.dir, dst.dir)
			o.Mount = "the second mover's pod"
			result, err := Copy(context.Background(), o) // finds a copy with the same attributes, and must not accept it
			var failure *fault.Error
			if !errors.As(err, &failure) || failure.Code != moverreport.CodeMismatch || result.TrustedFiles != 0 {
				t.Errorf("the final pass ended with %v, %+v", err, result)
			}
			_, err = Copy(context.Background(), o) // the same mover again
			must(t, err)
			if have, err := os.ReadFile(dst.dir + "/wal"); err != nil || !bytes.Equal(have, want) {
				t.Errorf("the copy lacks an acknowledged transaction (%v)", err)
			}
		})
	}
}

func metaOfFile(t *testing.T, path string) fsys.Meta {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return fsys.MetaOf(&st)
}
