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

// The root directory is faithful, except for the rights that the platform sets for fsGroup. Otherwise the first pass
// fails before it copies anything.
func TestUserCopiesRootDirectory(t *testing.T) {
	chown := func(uid, gid int, mode uint32) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			must(t, os.Chown(dir, uid, gid))
			must(t, unix.Chmod(dir, mode))
		}
	}
	fresh := chown(0, fsGroup, 0o2775)
	for name, c := range map[string]struct {
		src, dst func(t *testing.T, dir string)
		want     string // part of the message; "" if the copy is faithful
	}{
		"both as the platform makes them":     {fresh, fresh, ""},
		"the platform's rights are new":       {chown(0, 1234, 0o755), fresh, ""},
		"owned by the workload's user":        {chown(user, user, 0o700), fresh, "its owner is 0:1000, not 1000:1000"},
		"closed to others":                    {chown(0, fsGroup, 0o2770), fresh, "its mode is 02775, not 02770"},
		"sticky":                              {chown(0, fsGroup, 0o3775), fresh, "its mode is 02775, not 03775"},
		"a group that the process is not in":  {chown(0, 1234, 0o775), chown(0, 4321, 0o777), "its owner is 0:4321, not 0:1234"},
		"an ACL for new files":                {withACL(fresh), fresh, "its extended attributes differ"},
		"an ACL in the target only":           {fresh, withACL(fresh), "its extended attributes differ"},
		"the user owns the target":            {chown(user, user, 0o700), chown(user, user, 0o755), ""},
		"the user owns the target, with ACLs": {withACL(chown(user, user, 0o700)), chown(user, user, 0o755), ""},
		"the user owns the target only":       {chown(0, fsGroup, 0o2775), chown(user, fsGroup, 0o2775), "its owner is 1000:7777, not 0:7777"},
		"an attribute of a user":              {withAttribute(fresh), fresh, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pass := range []tree.Pass{tree.PassFirst, tree.PassWhole} {
				src, dst := volumes(t)
				c.src(t, src.dir)
				c.dst(t, dst.dir)
				r := child{Source: src.dir, Target: dst.dir, Pass: pass, OwnOnly: true}.run(t, user)
				if len(r.Warnings) != 0 {
					t.Errorf("%q", r.Warnings)
				}
				if c.want == "" {
					if r.Code != moverreport.CodeOK {
						t.Fatalf("%+v", r)
					}
					continue
				}
				if r.Reason != moverreport.ReasonNotFaithful || !strings.Contains(r.Message, c.want) || r.Files != 0 {
					t.Fatalf("%+v", r)
				}
			}
		})
	}
}

// withACL adds a default ACL.
func withACL(then func(t *testing.T, dir string)) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		then(t, dir)
		runCommand(t, "setfacl", "-d", "-m", "u:55:rwx", dir)
	}
}

// withAttribute adds an extended attribute.
func withAttribute(then func(t *testing.T, dir string)) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		then(t, dir)
		must(t, unix.Setxattr(dir, "user.k", []byte("v"), 0))
	}
}

// A pass fails when it writes an attribute that the target cannot hold, even if it verifies nothing.
func TestTargetThatDoesNotKeepAttributes(t *testing.T) {
	small := []string{"mkfs.ext4", "-q", "-F", "-I", "128", "-O", "^metadata_csum"}
	for name, put := range map[string]func(t *testing.T, dir string){
		"a file":      func(t *testing.T, dir string) { writeFile(t, dir+"/it", "x") },
		"a directory": func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"/it", 0o755)) },
		"a link":      func(t *testing.T, dir string) { must(t, os.Symlink("x", dir+"/it")) },
		"a fifo":      func(t *testing.T, dir string) { must(t, unix.Mkfifo(dir+"/it", 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, pass := range []tree.Pass{tree.PassFirst, tree.PassWhole} {
				src, dst := newVolume(t, 16), newVolume(t, 16, small...)
				put(t, src.dir)
				setTime(t, src.dir+"/it", 1_600_000_000_123_456_789)
				setTime(t, src.dir, 1_600_000_000_000_000_000)
				e := copyFails(t, Options{Source: src.dir, Target: dst.dir, Pass: pass, Token: operation}, moverreport.CodeNotFaithful)
				if e.Count != 1 || !strings.Contains(e.Message, `"it" of the target`) ||
					!strings.Contains(e.Message, "1600000000.000000000, not 1600000000.123456789") {
					t.Errorf("%v", e)
				}
			}
		})
	}
}
