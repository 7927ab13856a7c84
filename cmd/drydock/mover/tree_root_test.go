//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/verify"
	"drydock.dev/shared/moverreport"
)

// allFeatures fills a volume with an entry of every kind.
func allFeatures(t testing.TB, root string) {
	t.Helper()
	at := func(elem ...string) string { return filepath.Join(append([]string{root}, elem...)...) }
	for _, dir := range []string{"a", "a/b", "empty", "acl", "sticky", "locked"} {
		must(t, os.Mkdir(at(dir), 0o755))
	}
	makeNames(t, root)
	makeSparse(t, root)
	makeSpecials(t, root)

	writeFile(t, at("a/one"), "one")
	must(t, os.Link(at("a/one"), at("a/b/two")))
	must(t, os.Link(at("a/one"), at("three")))
	must(t, os.Symlink("one", at("a/link")))
	must(t, os.Symlink("/etc/passwd", at("absolute")))
	must(t, os.Symlink(strings.Repeat("x", 1000), at("long-link")))
	must(t, os.Symlink("dangling", at("hard-symlink-1")))
	must(t, os.Link(at("hard-symlink-1"), at("a/hard-symlink-2")))
	must(t, os.Lchown(at("a/link"), 12, 34))

	writeFile(t, at("setuid"), "#!")
	must(t, os.Chown(at("setuid"), 1234, 5678))
	must(t, unix.Chmod(at("setuid"), 0o6751))
	must(t, unix.Chmod(at("sticky"), 0o3777))
	writeFile(t, at("locked/none"), "no rights at all")
	must(t, unix.Chmod(at("locked/none"), 0))
	must(t, unix.Chmod(at("locked"), 0o500))

	writeFile(t, at("acl/file"), "acl")
	runCommand(t, "setfacl", "-m", "u:1001:rw,g:1002:r,m::r", at("acl/file"))
	runCommand(t, "setfacl", "-d", "-m", "u:1003:rwx,o::-", at("acl"))
	writeFile(t, at("acl/inherited"), "gets the default")
	writeFile(t, at("acl/plain"), "has none although its directory has a default")
	runCommand(t, "setfacl", "-b", at("acl/plain"))

	writeFile(t, at("xattr"), "x")
	must(t, unix.Lsetxattr(at("xattr"), "user.binary", []byte{0, 1, 255, '\n'}, 0))
	must(t, unix.Lsetxattr(at("xattr"), "user.empty", nil, 0))
	must(t, unix.Lsetxattr(at("xattr"), "user.large", bytes.Repeat([]byte("y"), 400), 0))
	must(t, unix.Lsetxattr(at("xattr"), "trusted.mine", []byte("t"), 0))
	must(t, unix.Lsetxattr(at("a/link"), "trusted.link", []byte("on a symlink"), 0))
	must(t, unix.Lsetxattr(at("a"), "user.dir", []byte("d"), 0))
	writeFile(t, at("capable"), "c")
	must(t, os.Chown(at("capable"), 1234, 0))
	runCommand(t, "setcap", "cap_net_bind_service+ep", at("capable"))

	setTime(t, at("a/link"), 1_000_000_000_123_456_789)
	setTime(t, at("xattr"), -86_400_000_000_001) // before 1970
	setTime(t, at("capable"), 4_102_444_800_000_000_001)
	for _, dir := range []string{"a/b", "a", "empty", "locked"} {
		setTime(t, at(dir), 1_234_567_890_987_654_321)
	}
	must(t, unix.Chmod(root, 0o2751))
	must(t, os.Chown(root, 4321, 8765))
	setTime(t, root, 1_600_000_000_000_000_007)
}

func makeNames(t testing.TB, root string) {
	t.Helper()
	names := []string{
		"new\nline", "tab\tand \x01", "invalid \xff\xfe utf-8", `back\slash "quote"`, "-rf", " ", "...", "ünï",
		strings.Repeat("n", 255), strings.Repeat("\xff", 255), target.TempPrefix + "1", target.TempPrefix + "2", "a/" + tree.LostFound,
	}
	for _, name := range names {
		writeFile(t, filepath.Join(root, name), name)
	}
	makeDeepTree(t, root, 15, strings.Repeat("d", 200)) // a path of 3,000 bytes: rsync knows none above 4,096
	makeDeepTree(t, root, 300, "e")
}

func makeSparse(t testing.TB, root string) {
	t.Helper()
	file := func(name string, size int64, at ...int64) {
		f, err := os.Create(filepath.Join(root, name))
		must(t, err)
		defer f.Close()
		for _, off := range at {
			_, err := f.WriteAt(bytes.Repeat([]byte{byte(off%250) + 1}, 5000), off)
			must(t, err)
		}
		must(t, f.Truncate(size))
	}
	file("sparse", 64<<20, 0, 1<<20+17, 30<<20, 64<<20-5000)
	file("sparse-tail", 10<<20, 4096)
	file("all-hole", 16<<20)
	file("small-hole", 3*4096, 2*4096-1)
	file("one-byte-hole", 1)
	file("odd", 5003, 3)
}

func makeSpecials(t testing.TB, root string) {
	t.Helper()
	for name, mode := range map[string]uint32{"fifo": unix.S_IFIFO | 0o622, "sock": unix.S_IFSOCK | 0o755,
		"char": unix.S_IFCHR | 0o644, "block": unix.S_IFBLK | 0o660} {
		path := filepath.Join(root, name)
		must(t, unix.Mknod(path, mode, int(unix.Mkdev(250, 70003))))
		must(t, unix.Chmod(path, mode&0o7777))
		must(t, os.Lchown(path, 7, 8))
		setTime(t, path, 1_111_111_111_111_111_111)
	}
	runCommand(t, "setfacl", "-m", "u:1001:rw", filepath.Join(root, "fifo"))
}

// addRandomEntries creates random entries below dir and replaces existing ones. Names come from a small set, so a second
// call changes types and contents.
func addRandomEntries(t testing.TB, r *rand.Rand, dir string, entries int) {
	t.Helper()
	dirs := []string{dir}
	var files []string
	for range entries {
		parent := dirs[r.IntN(len(dirs))]
		path := filepath.Join(parent, randomName(r))
		if parentGone(parent) {
			continue
		}
		must(t, os.RemoveAll(path))
		addRandomEntry(t, r, path, &dirs, &files)
	}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() != tree.LostFound && r.IntN(3) == 0 {
			setTime(t, path, r.Int64N(2e18))
		}
		return err
	}))
}

func parentGone(dir string) bool {
	st, err := os.Lstat(dir)
	return err != nil || !st.IsDir()
}

func randomName(r *rand.Rand) string {
	if r.IntN(20) == 0 {
		b := make([]byte, 1+r.IntN(255))
		for i := range b {
			for b[i] == 0 || b[i] == '/' || b[i] == '.' {
				b[i] = byte(r.IntN(256))
			}
		}
		return string(b)
	}
	return fmt.Sprintf("n%d", r.IntN(12))
}

func addRandomEntry(t testing.TB, r *rand.Rand, path string, dirs, files *[]string) {
	t.Helper()
	switch r.IntN(12) {
	case 0, 1, 2:
		must(t, os.Mkdir(path, os.FileMode(r.IntN(0o1000))))
		*dirs = append(*dirs, path)
	case 3:
		must(t, os.Symlink(randomName(r), path))
		must(t, os.Lchown(path, r.IntN(3), r.IntN(3)))
		return
	case 4, 5:
		if len(*files) > 0 {
			if os.Link((*files)[r.IntN(len(*files))], path) == nil {
				return
			}
		}
		must(t, unix.Mkfifo(path, 0o600))
	case 6:
		must(t, unix.Mknod(path, unix.S_IFCHR|0o600, r.IntN(1000)))
	default:
		f, err := os.Create(path)
		must(t, err)
		for range r.IntN(4) {
			_, err = f.WriteAt(bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(100000)), r.Int64N(1<<20))
			must(t, err)
		}
		must(t, f.Close())
		*files = append(*files, path)
		if r.IntN(3) == 0 {
			must(t, unix.Lsetxattr(path, fmt.Sprintf("user.k%d", r.IntN(3)), []byte{byte(r.IntN(256))}, 0))
		}
		if r.IntN(4) == 0 {
			runCommand(t, "setfacl", "-m", fmt.Sprintf("u:%d:r", 1000+r.IntN(3)), path)
		}
	}
	must(t, os.Lchown(path, r.IntN(3), r.IntN(3)))
	must(t, unix.Chmod(path, uint32(r.IntN(0o10000))))
}

// TestTargetThatIgnoresCaseIsMismatch copies to NTFS, whose driver finds a name in any case. There the second of two such names overwrites
// the first.
// Invariants: I1.
func TestTargetThatIgnoresCaseIsMismatch(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		want  string // part of the problems; "" if the copy succeeds
	}{
		"other names":    {map[string]string{"a": "1", "b": "2", "d/e": "3"}, ""},
		"other contents": {map[string]string{"a": "1", "A": "2", "d/e": "3"}, `"." of the target: mismatch: it has only 2 of the 3 names`},
		"same contents":  {map[string]string{"a": "1", "A": "1", "d/e": "3"}, `"." of the target: mismatch: it has only 2 of the 3 names`},
		"in a directory": {map[string]string{"d/e": "", "d/E": ""}, `"d" of the target: mismatch: it has only 1 of the 2 names`},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 32), newNTFS(t)
			must(t, os.Mkdir(filepath.Join(src.dir, "d"), 0o755))
			for file, contents := range row.files {
				writeFile(t, filepath.Join(src.dir, file), contents)
			}
			must(t, filepath.WalkDir(src.dir, func(path string, _ fs.DirEntry, err error) error {
				setTime(t, path, 1_700_000_000e9) // NTFS stores times in units of 100 ns
				return err
			}))
			if o := (Options{Source: src.dir, Target: dst}); row.want == "" {
				copyTree(t, o)
			} else if problems := strings.Join(copyFails(t, o, moverreport.CodeMismatch).Paths, "\n"); !strings.Contains(problems, row.want) {
				t.Errorf("%q is missing in:\n%s", row.want, problems)
			}
		})
	}
}

// newNTFS returns a file system that ignores the case of names. It needs FUSE in the kernel.
func newNTFS(t *testing.T) string {
	t.Helper()
	needRoot(t)
	base := publicTempDir(t)
	dir, image := filepath.Join(base, "mnt"), filepath.Join(base, "image")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 32<<20))
	runCommand(t, "mkntfs", "-q", "-F", image)
	runCommand(t, "lowntfs-3g", "-o", "ignore_case,permissions,streams_interface=xattr", image, dir)
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

// A lookup in a target that ignores case finds one entry for two names of the source. Only the names that the target lists show
// that. In the root, a lost+found must not make up for the missing name.
func TestFewerNamesInTargetAreMismatch(t *testing.T) {
	for _, c := range []struct {
		at     string
		target []string // names in the target's directory
		want   string   // part of the error; "" for none
	}{
		{"", []string{"a", "A"}, ""},
		{"", []string{"a"}, "it has only 1 of the 2 names of the source"},
		{"d", []string{"a", "A"}, ""},
		{"d", []string{"a"}, "it has only 1 of the 2 names of the source"},
		{"d", []string{"a", "b"}, ""}, // equal numbers below the root: the lookup of A fails
		{"d", []string{"a", "A", "b"}, "the source has no such entry"},
	} {
		t.Run(fmt.Sprint(c.at, c.target), func(t *testing.T) {
			src, dst := newVolume(t, 32), newVolume(t, 32)
			must(t, os.MkdirAll(filepath.Join(src.dir, c.at), 0o755))
			must(t, os.MkdirAll(filepath.Join(dst.dir, c.at), 0o755))
			for _, n := range []string{"a", "A"} {
				writeFile(t, filepath.Join(src.dir, c.at, n), "x")
			}
			for _, n := range c.target {
				writeFile(t, filepath.Join(dst.dir, c.at, n), "x")
			}
			from, err := fsys.OpenRoot(src.dir, fault.Source)
			must(t, err)
			defer from.Close()
			to, err := fsys.OpenRoot(dst.dir, fault.Target)
			must(t, err)
			defer to.Close()
			var p fault.Problems
			m := progress.NewMeter(nil, 0)
			scanned, err := tree.Scan(t.Context(), from, 1, m, &p)
			must(t, err)
			j := &tree.Job{Src: from, Dst: to, Tree: scanned, Meter: m, Problems: &p}
			v := &verify.Verifier{Job: j, Own: &target.Owner{Job: j}}
			d := scanned.Dirs[len(scanned.Dirs)-1] // the deepest
			must(t, v.WithDir(d, v.CompareNames))
			if err := p.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
