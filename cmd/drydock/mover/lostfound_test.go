//go:build linux && root

package mover

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

func TestLostFoundIsCopiedUnlessUnused(t *testing.T) {
	for name, c := range map[string]struct {
		fs   []string
		fill func(t *testing.T, dir string)
		want string // of the target's lost+found; "-" if there is none in a target without one of its own
	}{
		"as mkfs made it":  {nil, func(*testing.T, string) {}, "-"},
		"recovered files":  {nil, func(t *testing.T, dir string) { write(t, dir+"/#12", "x"); write(t, dir+"/#13", "y") }, "#12,#13"},
		"given to a user":  {nil, func(t *testing.T, dir string) { must(t, os.Chown(dir, 1000, 1000)) }, "-"},
		"open to others":   {nil, func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) }, "-"},
		"a user's on xfs":  {[]string{"mkfs.xfs", "-q"}, func(t *testing.T, dir string) { must(t, os.Chown(dir, 1000, 1000)); write(t, dir+"/f", "x") }, "f"},
		"of xfs":           {[]string{"mkfs.xfs", "-q"}, func(t *testing.T, dir string) { write(t, dir+"/data", "x") }, "data"},
		"a deep directory": {nil, func(t *testing.T, dir string) { must(t, os.MkdirAll(dir+"/a/b/c", 0o700)) }, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			size := 32
			if c.fs != nil {
				size = 400
			}
			src := newVolume(t, size, c.fs...)
			must(t, os.MkdirAll(src.dir+"/"+lostFound, 0o700))
			c.fill(t, src.dir+"/"+lostFound)
			for _, dst := range []volume{newVolume(t, 32), newVolume(t, 400, "mkfs.xfs", "-q")} {
				copyTree(t, Options{Source: src.dir, Target: dst.dir})
				if _, err := os.Stat(dst.dir + "/" + lostFound); err != nil && c.want == "-" {
					continue
				}
				if got := list(t, dst.dir+"/"+lostFound); got != strings.Trim(c.want, "-") {
					t.Errorf("%q", got)
				}
				if c.want != "-" {
					sh(t, "diff", "-r", src.dir+"/"+lostFound, dst.dir+"/"+lostFound)
				}
			}
		})
	}
}

// What an earlier pass has put there does not stay when the source has it no more, and the file system's own does.
func TestLostFoundIsEmptied(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	deep(t, src.dir+"/"+lostFound, 100, "x")
	settle()
	warmTree(t, ownOnly(warmOf(src.dir, dst.dir)))
	if got := list(t, dst.dir+"/"+lostFound); got != "x" {
		t.Fatal(got)
	}
	must(t, os.RemoveAll(src.dir+"/"+lostFound+"/x"))
	copyTree(t, ownOnly(finalOf(src.dir, dst.dir)))
	if got := list(t, dst.dir+"/"+lostFound); got != "" {
		t.Error(got)
	}
}

// A user's mover cannot look into it. What shows from outside that it is used fails the copy; else the user is told.
func TestUnreadableLostFound(t *testing.T) {
	src, dst := volumes(t)
	must(t, os.Chown(src.dir+"/"+lostFound, 0, 0))
	r := child{Source: src.dir, Target: dst.dir, OwnOnly: true}.run(t, user)
	if r.Code != moverreport.CodeOK || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "lost+found") {
		t.Fatalf("%+v", r)
	}
	must(t, os.Mkdir(src.dir+"/"+lostFound+"/#11", 0o755))
	r = child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful || !strings.Contains(r.Message, `"lost+found"`) {
		t.Fatalf("a directory: %+v", r)
	}
	must(t, os.Remove(src.dir+"/"+lostFound+"/#11"))
	r = child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeNotFaithful {
		t.Fatalf("it was written to since mkfs made it: %+v", r)
	}
	must(t, os.Chown(src.dir+"/"+lostFound, 0, fsGroup)) // as the kubelet does for fsGroup
	must(t, unix.Chmod(src.dir+"/"+lostFound, 0o2770))
	if r = (child{Source: src.dir, Target: dst.dir}).run(t, user); r.Code != moverreport.CodeOK || len(r.Warnings) != 0 {
		t.Fatalf("it can be read, and is empty: %+v", r)
	}
}
