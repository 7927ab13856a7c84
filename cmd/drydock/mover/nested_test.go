//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
)

// subvolumes fills a btrfs volume with files below two subvolumes. Their inode numbers occur in the root, too.
func subvolumes(t testing.TB) volume {
	t.Helper()
	v := newVolume(t, 400, "mkfs.btrfs", "-q")
	must(t, os.Mkdir(v.dir+"/plain", 0o755))
	for _, dir := range []string{"", "/pgdata", "/pgdata/base"} {
		if dir != "" {
			runCommand(t, "btrfs", "-q", "subvolume", "create", v.dir+dir)
		}
		for _, n := range []string{"a", "b", "c", "d"} {
			writeFile(t, v.dir+dir+"/"+n, dir+n)
		}
		must(t, os.Link(v.dir+dir+"/a", v.dir+dir+"/linked"))
		must(t, os.Link(v.dir+dir+"/b", v.dir+dir+"/also"))
	}
	return v
}

func sameInode(t testing.TB, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	must(t, err)
	y, err := os.Stat(b)
	must(t, err)
	return os.SameFile(x, y)
}

func TestSubvolumesAreCopied(t *testing.T) {
	src := subvolumes(t)
	for name, dst := range map[string]volume{"to btrfs": newVolume(t, 400, "mkfs.btrfs", "-q"), "to ext4": newVolume(t, 64)} {
		t.Run(name, func(t *testing.T) {
			r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
			if r.Files != 18 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `"pgdata"`) ||
				!strings.Contains(r.Warnings[0], `subvolumes of the source are plain directories in the target (2,`) {
				t.Errorf("%+v", r)
			}
			requireEqualTrees(t, src.dir, dst.dir)
			if !sameInode(t, dst.dir+"/pgdata/a", dst.dir+"/pgdata/linked") || sameInode(t, dst.dir+"/a", dst.dir+"/pgdata/a") {
				t.Error("names of different subvolumes are linked to each other")
			}
		})
	}
}

// Files in a subvolume are always read again. The pass finds their changes although their inode numbers are not unique.
func TestSubvolumesInTwoPasses(t *testing.T) {
	src, dst := subvolumes(t), newVolume(t, 64)
	waitSettled()
	if r := runFirstPass(t, firstPass(src.dir, dst.dir)); r.RecordedFiles != 4 {
		t.Fatalf("exactly the files of the root should be recorded: %+v", r)
	}
	writeFile(t, filepath.Join(src.dir, "pgdata/base/d"), "changed")
	writeFile(t, filepath.Join(src.dir, "pgdata/new"), "new")
	if r := copyTree(t, finalPass(src.dir, dst.dir)); r.TrustedFiles != 6 || r.Files != 2 {
		t.Errorf("%+v", r)
	}
	requireEqualTrees(t, src.dir, dst.dir)
}

// Kernels before 5.8 do not distinguish a subvolume from a mount.
func TestSubvolumeIsNotFaithfulWhereMountsAreUnknown(t *testing.T) {
	src := subvolumes(t)
	r, err := fsys.OpenRoot(src.dir, fault.Source)
	must(t, err)
	defer r.Close()
	st, err := fsys.StatEntry(r.Fd, "pgdata")
	must(t, err)
	for name, row := range map[string]struct {
		root, entry uint64
		want        bool
	}{
		"the mounts are known and the same":             {r.Mount, st.Mount, false},
		"the mounts are known and differ":               {r.Mount + 1, st.Mount, true},
		"the kernel reports no mounts":                  {0, 0, true},
		"the kernel does not report the entry's mount":  {r.Mount, 0, true},
		"the kernel does not report the volume's mount": {0, st.Mount, true},
	} {
		r.Mount, st.Mount = row.root, row.entry
		if got := r.IsElsewhere(&st); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
		r.Mount, st.Mount = 1, 1
	}
}
