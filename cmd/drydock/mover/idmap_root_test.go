//go:build linux && root

package mover

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// mappedIDs are the ids that user namespaces of pods map. The overflow id is one of them.
const mappedIDs = 65_536

var idMapping = []syscall.SysProcIDMap{{Size: mappedIDs}}

func inUserNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: idMapping, GidMappings: idMapping}
}

// idMapped mounts a directory with ids mapped below mappedIDs only.
func idMapped(t testing.TB, dir string) string {
	t.Helper()
	holder := exec.Command("sleep", "60")
	holder.SysProcAttr = inUserNamespace()
	must(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	must(t, err)
	defer ns.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	must(t, unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr))
	at := publicTempDir(t) + "/mapped"
	must(t, os.Mkdir(at, 0o755))
	must(t, unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	t.Cleanup(func() { unmount(t, at) })
	return at
}

// Ids without a mapping look like one id. A mover in a user namespace, or with an id-mapped mount, fails for them, and copies all others.
func TestIDsWithoutMappingFailTheCopy(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"owner": func(dir string) error { return os.Lchown(dir+"/f", 1_000_650_000, 100) },
		"group": func(dir string) error { return os.Lchown(dir+"/link", 100, 1_000_650_000) },
		"directory": func(dir string) error {
			return os.Chown(dir+"/d", 1_000_650_000, 1_000_650_000)
		},
		"root":     func(dir string) error { return os.Chown(dir, 1_000_650_000, 0) },
		"ACL":      func(dir string) error { return exec.Command("setfacl", "-m", "u:1000650000:r", dir+"/f").Run() },
		"overflow": func(dir string) error { return os.Lchown(dir+"/f", 65534, 100) },
	} {
		for _, how := range []string{"namespace", "mount"} {
			t.Run(name+" "+how, func(t *testing.T) {
				src, dst := newVolume(t, 32), newVolume(t, 32)
				must(t, os.Mkdir(src.dir+"/d", 0o755))
				writeFile(t, src.dir+"/f", "x")
				must(t, os.Symlink("f", src.dir+"/link"))
				must(t, os.Chown(src.dir+"/f", mappedIDs-1, 100))
				from, to := src.dir, dst.dir
				if how == "mount" {
					from, to = idMapped(t, from), idMapped(t, to)
				}
				run := func(pass tree.Pass) moverreport.Report {
					c := child{Source: from, Target: to, Pass: pass}
					if how == "mount" {
						return c.run(t, 0)
					}
					return c.runIn(t, inUserNamespace())
				}
				if r := run(tree.PassWhole); r.Code != moverreport.CodeOK || !r.Verified {
					t.Fatalf("all ids have a mapping: %+v", r)
				}
				must(t, spoil(src.dir))
				for _, pass := range []tree.Pass{tree.PassFirst, tree.PassWhole} {
					r := run(pass)
					if r.Code != moverreport.CodeNotFaithful || !strings.Contains(r.Message, "hostUsers: true") {
						t.Errorf("%+v", r)
					}
				}
				copyTree(t, Options{Source: src.dir, Target: dst.dir}) // outside, the ids are known
			})
		}
	}
}
