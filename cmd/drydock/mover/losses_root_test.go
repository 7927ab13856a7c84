//go:build linux && root

package mover

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const prealloc = 8 << 20

// preallocate writes a file of one page and reserves space for it, within its size or beyond it.
func preallocate(t testing.TB, path string, mode uint32) {
	t.Helper()
	writeFile(t, path, strings.Repeat("x", 4096))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	must(t, unix.Fallocate(int(f.Fd()), mode, 0, prealloc))
	must(t, f.Close())
}

// A project id, an extent size hint and preallocated space stay behind, and each is named once with the number of entries. Files with
// none of them, also with holes or with metadata of many extents, cause no warning.
func TestSettingsThatTheCopyLosesAreWarnedOf(t *testing.T) {
	for name, mkfs := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-F"}, "xfs": {"mkfs.xfs", "-q"}, "btrfs": {"mkfs.btrfs", "-q"},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)
			writeFile(t, src.dir+"/plain", strings.Repeat("x", 1<<20))
			sparse, err := os.Create(src.dir + "/sparse")
			must(t, err)
			for i := range int64(2000) {
				_, err := sparse.WriteAt([]byte("x"), i*16<<10)
				must(t, err)
			}
			must(t, sparse.Close())
			waitSettled()
			if r := runFirstPass(t, firstPass(src.dir, dst.dir)); len(r.Warnings) != 0 {
				t.Fatalf("nothing is lost: %q", r.Warnings)
			}

			must(t, os.Mkdir(src.dir+"/dir", 0o755))
			preallocate(t, src.dir+"/dir/within", 0)
			preallocate(t, src.dir+"/dir/beyond", unix.FALLOC_FL_KEEP_SIZE)
			want := []string{`the preallocated space (fallocate) of 2 entries is not copied. First: "dir/beyond"`}
			if name == "xfs" {
				runCommand(t, "chattr", "-p", "42", src.dir+"/dir", src.dir+"/dir/within")
				want = append(want, `the project id (chattr -p) of 2 entries is not copied. First: "dir"`)
				writeFile(t, src.dir+"/hint", "")
				runCommand(t, "xfs_io", "-c", "extsize 1m", src.dir+"/hint")
				want = append([]string{`the extent size hint (xfs_io, extsize) of 1 entry is not copied. First: "hint"`}, want...)
			}
			r := runFirstPass(t, firstPass(src.dir, dst.dir))
			if got := strings.Join(r.Warnings, "\n"); got != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			copyTree(t, Options{Source: src.dir, Target: dst.dir})
		})
	}
}

// The project of the volume's root is the quota of the platform, and what entries inherit from it is no loss. It is one if the new volume
// has no project.
func TestProjectOfTheVolumeIsTheQuotaOfThePlatform(t *testing.T) {
	mkfs := []string{"mkfs.xfs", "-q"}
	src, dst, none := newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)
	setProjectInheritance(t, src.dir, "7")
	setProjectInheritance(t, dst.dir, "8")
	must(t, os.Mkdir(src.dir+"/dir", 0o755))
	writeFile(t, src.dir+"/dir/file", "x")
	waitSettled()
	if r := runFirstPass(t, firstPass(src.dir, dst.dir)); len(r.Warnings) != 0 {
		t.Errorf("%q", r.Warnings)
	}
	want := `the project id (chattr -p) of 1 entry is not copied. First: "."`
	if r := runFirstPass(t, firstPass(src.dir, none.dir)); strings.Join(r.Warnings, "\n") != want {
		t.Errorf("%q", r.Warnings)
	}
}
