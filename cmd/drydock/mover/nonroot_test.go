//go:build linux && root

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/shared/moverreport"
)

const user = 1000

// chownTree gives a whole tree to a user.
func chownTree(t *testing.T, dir string, uid, gid int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	}))
}

// volumes returns a source with a user's files, and a target as the kubelet makes it: owned by root, with the pod's
// group.
func volumes(t *testing.T) (src, dst volume) {
	t.Helper()
	src, dst = newVolume(t, 32), newVolume(t, 32)
	must(t, os.Mkdir(src.dir+"/data", 0o700))
	writeFile(t, src.dir+"/data/table", strings.Repeat("row", 1000))
	writeFile(t, src.dir+"/conf", "conf")
	must(t, os.Link(src.dir+"/conf", src.dir+"/data/conf"))
	must(t, os.Symlink("conf", src.dir+"/link"))
	must(t, unix.Mkfifo(src.dir+"/fifo", 0o600))
	must(t, unix.Mknod(src.dir+"/sock", unix.S_IFSOCK|0o600, 0))
	must(t, os.Mkdir(src.dir+"/read-only", 0o755))
	writeFile(t, src.dir+"/read-only/f", "x")
	must(t, unix.Setxattr(src.dir+"/conf", "user.k", []byte("v"), 0))
	runCommand(t, "setfacl", "-m", "u:55:r", src.dir+"/conf")
	chownTree(t, src.dir, user, fsGroup)
	must(t, os.Chown(src.dir+"/data/table", user, user))
	must(t, unix.Chmod(src.dir+"/read-only", 0o2555))
	must(t, os.Chown(src.dir, 0, fsGroup))
	must(t, unix.Chmod(src.dir, 0o2775))
	setTime(t, src.dir+"/data", 1e18)

	must(t, os.Chown(dst.dir, 0, fsGroup))
	must(t, unix.Chmod(dst.dir, 0o2775))
	return src, dst
}

func TestUserCopiesOwnFiles(t *testing.T) {
	src, dst := volumes(t)
	r := child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeOK || !r.Verified || len(r.Warnings) != 0 {
		t.Fatalf("%+v", r)
	}
	must(t, os.Chtimes(dst.dir, mtime(t, src.dir), mtime(t, src.dir))) // only the directory's owner can set its time
	requireEqualTrees(t, src.dir, dst.dir)

	if r = (child{Source: src.dir, Target: dst.dir}).run(t, user); r.Code != moverreport.CodeOK || r.Files != 0 {
		t.Fatalf("again: %+v", r) // it also writes into the directory without write permission
	}
	must(t, os.Remove(src.dir+"/read-only/f"))
	must(t, os.Chmod(src.dir+"/read-only", 0o555))
	if r = (child{Source: src.dir, Target: dst.dir}).run(t, user); r.Code != moverreport.CodeOK || r.Deleted != 1 {
		t.Fatalf("deleting from a directory without write permission: %+v", r)
	}
}

func TestUserDeletesTreesWithoutPermissions(t *testing.T) {
	src, dst := volumes(t)
	must(t, os.MkdirAll(dst.dir+"/extra/locked/deep", 0o755))
	chownTree(t, dst.dir+"/extra", user, fsGroup)
	must(t, os.Chmod(dst.dir+"/extra/locked", 0o100))
	must(t, os.Chmod(dst.dir+"/extra", 0))
	if r := (child{Source: src.dir, Target: dst.dir}).run(t, user); r.Code != moverreport.CodeOK || r.Deleted != 3 {
		t.Fatalf("%+v", r)
	}
}

func TestUserCannotReproduceForeignEntries(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(t *testing.T, dir string)
		names []string
		count int
	}{
		"files of others": {func(t *testing.T, dir string) {
			for _, n := range []string{"o1", "o2", "o3", "o4", "o5", "o6", "data/o7"} {
				writeFile(t, dir+"/"+n, "x")
				must(t, os.Chown(dir+"/"+n, 4242, 4242))
			}
		}, []string{"setting owner 4242:4242"}, 7},
		"a directory of others": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/theirs", 0o755))
			must(t, os.Chown(dir+"/theirs", 4242, 4242))
		}, []string{`"theirs"`}, 1},
		"a link of others": {func(t *testing.T, dir string) { must(t, os.Lchown(dir+"/link", 4242, 4242)) }, []string{`"link"`}, 1},
		"an unreadable file": {func(t *testing.T, dir string) {
			must(t, os.Chmod(dir+"/data/table", 0))
		}, []string{`opening "data/table" of the source: permission denied`}, 1},
		"an unreadable directory": {func(t *testing.T, dir string) {
			must(t, os.Chmod(dir+"/data", 0))
		}, []string{`opening the directory "data" of the source`}, 1},
		"a directory without search permission": {func(t *testing.T, dir string) {
			must(t, os.Chmod(dir+"/data", 0o400))
		}, []string{`"data/conf" of the source: permission denied`}, 2},
		"a directory in the way": {func(t *testing.T, dir string) {
			must(t, os.MkdirAll(dir+"/theirs/a/b", 0o755))
			chownTree(t, dir+"/theirs", user, fsGroup)
			writeFile(t, dir+"/theirs/a/b/f", "x")
		}, []string{`making the directory "theirs/a" of the target`}, 2},
		"a device": {func(t *testing.T, dir string) {
			must(t, unix.Mknod(dir+"/dev", unix.S_IFBLK|0o600, 1792))
		}, []string{`creating "dev"`}, 1},
		"a file capability": {func(t *testing.T, dir string) {
			runCommand(t, "setcap", "cap_net_raw+ep", dir+"/data/table")
		}, []string{`attribute "security.capability"`}, 1},
		"setgid of a foreign group": {func(t *testing.T, dir string) {
			must(t, os.Chown(dir+"/data/table", user, 4242))
		}, []string{`"data/table"`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := volumes(t)
			writeFile(t, dst.dir+"/kept", "nothing is deleted if the source cannot be read")
			must(t, os.Mkdir(dst.dir+"/theirs", 0o755)) // root's
			c.make(t, src.dir)
			r := child{Source: src.dir, Target: dst.dir}.run(t, user)
			if r.Code != moverreport.CodeNotFaithful || r.Reason != moverreport.ReasonNotFaithful || r.Count != c.count {
				t.Fatalf("%+v", r)
			}
			for _, n := range c.names {
				if !strings.Contains(r.Message, n) {
					t.Errorf("%q is not in %s", n, r.Message)
				}
			}
			if len(r.Problems) != min(r.Count, fault.MaxShown) {
				t.Errorf("%q", r.Problems)
			}
			_, err := os.Stat(dst.dir + "/kept")
			if unreadable := strings.Contains(r.Message, "data\" of the source"); unreadable && err != nil {
				t.Error(err)
			}
		})
	}
}

func mtime(t *testing.T, path string) (m time.Time) {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.ModTime()
}
