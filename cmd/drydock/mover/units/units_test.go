//go:build linux

package units

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"drydock.dev/cmd/drydock/mover/fault"
)

// Contents are equal wherever the holes of both files are, and each byte that differs is found.
func TestContentsAreCompared(t *testing.T) {
	const size = 5<<20 + 77
	dir := t.TempDir()
	open := func(name string, data map[int64]string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		t.Cleanup(func() { f.Close() })
		must(t, f.Truncate(size))
		for off, s := range data {
			_, err := f.WriteAt([]byte(s), off)
			must(t, err)
		}
		return f
	}
	sparse := open("sparse", map[int64]string{70_000: "a", size - 1: "z"})
	contents := bytes.Repeat([]byte{0}, size)
	contents[70_000], contents[size-1] = 'a', 'z'
	for name, c := range map[string]struct {
		other *os.File
		same  bool
	}{
		"a dense file":              {open("dense", map[int64]string{0: string(contents)}), true},
		"a file with other holes":   {open("zeros", map[int64]string{70_000: "a", 3 << 20: string(make([]byte, 1<<20)), size - 1: "z"}), true},
		"another byte":              {open("1", map[int64]string{70_000: "b", size - 1: "z"}), false},
		"another place":             {open("2", map[int64]string{70_001: "a", size - 1: "z"}), false},
		"another block":             {open("3", map[int64]string{170_000: "a", size - 1: "z"}), false},
		"another last byte":         {open("4", map[int64]string{70_000: "a", size - 1: "y"}), false},
		"a byte where it has holes": {open("5", map[int64]string{70_000: "a", 4 << 20: "x", size - 1: "z"}), false},
		"all hole":                  {open("6", nil), false},
	} {
		for _, fds := range [][2]int{{int(sparse.Fd()), int(c.other.Fd())}, {int(c.other.Fd()), int(sparse.Fd())}} {
			for _, all := range []bool{false, true} {
				compared := Comparison{Fds: fds, Size: size, All: [2]bool{all, all}}
				if same, err := compared.Run(context.Background()); err != nil || same != c.same {
					t.Errorf("%s: %v %v", name, same, err)
				}
			}
		}
	}
}

// A file that is shorter than it should be is an error of its side.
func TestComparisonNamesTheSideThatIsShort(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/long", "0123456789")
	write(t, dir+"/short", "01234")
	for side, names := range [][2]string{{"short", "long"}, {"long", "short"}} {
		var fds [2]int
		for k, name := range names {
			f, err := os.Open(filepath.Join(dir, name))
			must(t, err)
			defer f.Close()
			fds[k] = int(f.Fd())
		}
		_, err := (&Comparison{Fds: fds, Size: 10}).Run(context.Background())
		if f := (*SideError)(nil); !errors.As(err, &f) || int(f.Side) != side || f.Err != fault.ErrChanged {
			t.Errorf("%d: %v", side, err)
		}
	}
}
