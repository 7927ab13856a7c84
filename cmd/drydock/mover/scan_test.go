//go:build linux && root

package mover

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

func TestLostFoundIsCopiedUnlessUnused(t *testing.T) {
	for name, c := range map[string]struct {
		fs   []string
		fill func(t *testing.T, dir string)
		want string // names in the target's lost+found; "-" if the file system's lost+found stays empty
	}{
		"as mkfs made it": {nil, func(*testing.T, string) {}, "-"},
		"recovered files": {nil, func(t *testing.T, dir string) { writeFile(t, dir+"/#12", "x"); writeFile(t, dir+"/#13", "y") }, "#12,#13"},
		"given to a user": {nil, func(t *testing.T, dir string) { must(t, os.Chown(dir, 1000, 1000)) }, "-"},
		"open to others":  {nil, func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) }, "-"},
		"a user's on xfs": {[]string{"mkfs.xfs", "-q"}, func(t *testing.T, dir string) {
			must(t, os.Chown(dir, 1000, 1000))
			writeFile(t, dir+"/f", "x")
		}, "f"},
		"of xfs":           {[]string{"mkfs.xfs", "-q"}, func(t *testing.T, dir string) { writeFile(t, dir+"/data", "x") }, "data"},
		"a deep directory": {nil, func(t *testing.T, dir string) { must(t, os.MkdirAll(dir+"/a/b/c", 0o700)) }, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			size := 32
			if c.fs != nil {
				size = 400
			}
			src := newVolume(t, size, c.fs...)
			must(t, os.MkdirAll(src.dir+"/"+tree.LostFound, 0o700))
			c.fill(t, src.dir+"/"+tree.LostFound)
			for _, dst := range []volume{newVolume(t, 32), newVolume(t, 400, "mkfs.xfs", "-q")} {
				copyTree(t, Options{Source: src.dir, Target: dst.dir})
				if _, err := os.Stat(dst.dir + "/" + tree.LostFound); err != nil && c.want == "-" {
					continue
				}
				if got := namesIn(t, dst.dir+"/"+tree.LostFound); got != strings.Trim(c.want, "-") {
					t.Errorf("%q", got)
				}
				if c.want != "-" {
					runCommand(t, "diff", "-r", src.dir+"/"+tree.LostFound, dst.dir+"/"+tree.LostFound)
				}
			}
		})
	}
}

// When the source has no files in lost+found any more, the copies of an earlier pass are deleted. The file system's
// lost+found stays.
func TestCopiesInLostFoundAreDeleted(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	makeDeepTree(t, src.dir+"/"+tree.LostFound, 100, "x")
	waitSettled()
	runFirstPass(t, ownOnly(firstPass(src.dir, dst.dir)))
	if got := namesIn(t, dst.dir+"/"+tree.LostFound); got != "x" {
		t.Fatal(got)
	}
	must(t, os.RemoveAll(src.dir+"/"+tree.LostFound+"/x"))
	copyTree(t, ownOnly(finalPass(src.dir, dst.dir)))
	if got := namesIn(t, dst.dir+"/"+tree.LostFound); got != "" {
		t.Error(got)
	}
}

// A user's mover cannot read lost+found. If its stat shows that it is used, the copy fails. Otherwise there is a
// warning.
func TestUnreadableLostFound(t *testing.T) {
	src, dst := volumes(t)
	must(t, os.Chown(src.dir+"/"+tree.LostFound, 0, 0))
	r := child{Source: src.dir, Target: dst.dir, OwnOnly: true}.run(t, user)
	if r.Code != moverreport.CodeOK || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "lost+found") {
		t.Fatalf("%+v", r)
	}
	must(t, os.Mkdir(src.dir+"/"+tree.LostFound+"/#11", 0o755))
	r = child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful || !strings.Contains(r.Message, `"lost+found"`) {
		t.Fatalf("lost+found holds a directory: %+v", r)
	}
	must(t, os.Remove(src.dir+"/"+tree.LostFound+"/#11"))
	r = child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful {
		t.Fatalf("lost+found was written to after mkfs: %+v", r)
	}
	must(t, os.Chown(src.dir+"/"+tree.LostFound, 0, fsGroup)) // as the kubelet does for fsGroup
	must(t, unix.Chmod(src.dir+"/"+tree.LostFound, 0o2770))
	if r = (child{Source: src.dir, Target: dst.dir}).run(t, user); r.Code != moverreport.CodeOK || len(r.Warnings) != 0 {
		t.Fatalf("lost+found is readable and empty: %+v", r)
	}
}
