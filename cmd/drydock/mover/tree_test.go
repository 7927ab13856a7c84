//go:build linux

package mover

import (
	"testing"

	"golang.org/x/sys/unix"
)

// makeDeepTree creates a chain of directories with a file and a link at its end, at a path longer than PATH_MAX.
func makeDeepTree(t testing.TB, root string, levels int, name string) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	defer unix.Close(fd)
	f, err := unix.Openat(fd, "end", unix.O_WRONLY|unix.O_CREAT, 0o640)
	must(t, err)
	_, err = unix.Write(f, []byte("deep"))
	must(t, err)
	unix.Close(f)
	must(t, unix.Linkat(fd, "end", fd, "linked", 0))
	must(t, unix.Symlinkat("end", fd, "sym"))
}
