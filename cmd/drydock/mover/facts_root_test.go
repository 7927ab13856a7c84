//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
)

// facts returns what a program can see of each entry of a tree, without the code of the mover.
func facts(t testing.TB, root string) map[string]string {
	t.Helper()
	all, first := map[string]string{}, map[uint64]string{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, root)
		if rel == "/"+tree.LostFound {
			return fs.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%o %d:%d %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			line += fmt.Sprintf(" rdev %d size %d links %d first %q", st.Rdev, st.Size, st.Nlink, first[st.Ino])
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			link, _ := os.Readlink(path)
			line += " -> " + link
		}
		all[rel] = line + attributesFact(path)
		return nil
	}))
	return all
}

func attributesFact(path string) string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return " " + err.Error()
	}
	names := strings.Split(strings.Trim(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	fact := ""
	for _, name := range names {
		if name == "" || name == "security.selinux" || strings.HasPrefix(name, "trusted.SGI_") {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(path, name, value)
		fact += fmt.Sprintf(" %s=%x(%v)", name, value[:max(n, 0)], err)
	}
	return fact
}

// requireSameFacts compares two trees without the code of the mover.
func requireSameFacts(t testing.TB, src, dst string) {
	t.Helper()
	want, have := facts(t, src), facts(t, dst)
	for path, line := range want {
		if have[path] != line {
			t.Errorf("%q:\n source %s\n target %s", path, line, have[path])
		}
		if st, err := os.Lstat(src + path); err == nil && st.Mode().IsRegular() {
			a, err := os.ReadFile(src + path)
			must(t, err)
			b, err := os.ReadFile(dst + path)
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%q: the contents differ (%v)", path, err)
			}
		}
	}
	for path := range have {
		if _, ok := want[path]; !ok {
			t.Errorf("%q: only the target has it", path)
		}
	}
}
