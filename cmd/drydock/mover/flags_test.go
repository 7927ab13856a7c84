//go:build linux && root

package mover

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// flagLetters returns the settable flags of a path as lsattr shows them.
func flagLetters(t testing.TB, path string) string {
	t.Helper()
	field, _, _ := strings.Cut(runCommand(t, "lsattr", "-d", path), " ")
	return strings.NewReplacer("-", "", "e", "", "I", "", "N", "").Replace(field)
}

func TestInodeFlagsAreCopied(t *testing.T) {
	for _, mkfs := range [][]string{{"mkfs.ext4", "-q", "-F"}, {"mkfs.btrfs", "-q"}, {"mkfs.xfs", "-q"}} {
		t.Run(mkfs[0], func(t *testing.T) {
			src, dst := newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)
			must(t, os.Mkdir(src.dir+"/dir", 0o755))
			runCommand(t, "chattr", "+dA", src.dir+"/dir")
			writeFile(t, src.dir+"/dir/inherits", "x")
			writeFile(t, src.dir+"/dir/none", "x")
			runCommand(t, "chattr", "-dA", src.dir+"/dir/none")
			writeFile(t, src.dir+"/file", "")
			runCommand(t, "chattr", "+dS", src.dir+"/file")
			if mkfs[0] == "mkfs.btrfs" {
				runCommand(t, "chattr", "+C", src.dir+"/file")
			}
			writeFile(t, src.dir+"/file", "contents")
			waitSettled()
			for _, o := range []Options{firstPass(src.dir, dst.dir), finalPass(src.dir, dst.dir)} {
				if r, err := Copy(t.Context(), o); err != nil || len(r.Warnings) != 0 {
					t.Fatalf("%+v %v", r, err)
				}
				for _, n := range []string{"dir", "dir/inherits", "dir/none", "file"} {
					if a, b := flagLetters(t, src.dir+"/"+n), flagLetters(t, dst.dir+"/"+n); a != b {
						t.Errorf("%s has %q, not %q", n, b, a)
					}
				}
				runCommand(t, "chattr", "-d", src.dir+"/file") // between the passes
				runCommand(t, "chattr", "-A", src.dir+"/dir")
			}
		})
	}
}

// A flag that does not affect reading becomes a warning. Other flags fail the first pass.
func TestInodeFlagsThatCannotBeCopied(t *testing.T) {
	src, dst := newVolume(t, 400, "mkfs.btrfs", "-q"), newVolume(t, 64)
	for _, n := range []string{"a", "b"} {
		writeFile(t, src.dir+"/"+n, "")
		runCommand(t, "chattr", "+C", src.dir+"/"+n)
	}
	r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	if len(r.Warnings) != 1 || r.Warnings[0] != `the inode flag C (chattr) of 2 entries is not copied. First: "a"` {
		t.Errorf("%q", r.Warnings)
	}
	for flag, want := range map[string]string{"i": "it is immutable", "a": "it is append-only"} {
		for _, n := range []string{"f", "d"} {
			t.Run(flag+n, func(t *testing.T) {
				src, dst := newVolume(t, 16), newVolume(t, 16)
				writeFile(t, src.dir+"/f", "x")
				must(t, os.Mkdir(src.dir+"/d", 0o755))
				runCommand(t, "chattr", "+"+flag, src.dir+"/"+n)
				t.Cleanup(func() { runCommand(t, "chattr", "-"+flag, src.dir+"/"+n) })
				e := copyFails(t, ownOnly(firstPass(src.dir, dst.dir)), moverreport.CodeNotFaithful)
				if !strings.Contains(e.Message, want) || !strings.Contains(e.Message, `"`+n+`"`) || namesIn(t, dst.dir) != tree.LostFound {
					t.Errorf("%v; the target holds %s", e, namesIn(t, dst.dir))
				}
			})
		}
	}
}

// Not every kernel has the only needed flag, casefolding. Another flag stands for it here.
func TestNeededInodeFlagIsCopiedOrFailsTheFirstPass(t *testing.T) {
	for i := range fsys.InodeFlags {
		if f := &fsys.InodeFlags[i]; f.Name == "C" {
			f.Needed = true
			t.Cleanup(func() { f.Needed = false })
		}
	}
	src := newVolume(t, 400, "mkfs.btrfs", "-q")
	must(t, os.Mkdir(src.dir+"/share", 0o755))
	runCommand(t, "chattr", "+C", src.dir+"/share")
	writeFile(t, src.dir+"/share/name", "x")
	same, other := newVolume(t, 400, "mkfs.btrfs", "-q"), newVolume(t, 32)
	copyTree(t, Options{Source: src.dir, Target: same.dir})
	if got := flagLetters(t, same.dir+"/share") + flagLetters(t, same.dir+"/share/name"); got != "CC" {
		t.Error(got)
	}
	e := copyFails(t, firstPass(src.dir, other.dir), moverreport.CodeNotFaithful)
	if !strings.Contains(e.Message, `inode flag C on "share" of the target`) {
		t.Error(e)
	}
}

// Attributes that are not carried are named in a warning.
func TestOmittedAttributesAreWarnedOf(t *testing.T) {
	src, dst := newVolume(t, 400, "mkfs.btrfs", "-q"), newVolume(t, 32)
	for _, n := range []string{"f", "g"} {
		writeFile(t, src.dir+"/"+n, "x")
		must(t, unix.Setxattr(src.dir+"/"+n, "btrfs.compression", []byte("zstd"), 0))
	}
	r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
	want := `the extended attribute "btrfs.compression" of 2 entries is not copied. First: "f"`
	if !strings.Contains(strings.Join(r.Warnings, "; "), want) {
		t.Errorf("%q", r.Warnings)
	}
}

// A process without CAP_SYS_ADMIN cannot list trusted attributes. Whiteouts show that there may be some.
func TestWhiteoutsWarnOfTrustedAttributes(t *testing.T) {
	src, dst := volumes(t)
	must(t, unix.Mknod(src.dir+"/gone", unix.S_IFCHR|0o600, 0))
	chownTree(t, src.dir, user, fsGroup)
	must(t, os.Chown(src.dir, 0, fsGroup))
	must(t, unix.Chmod(src.dir, 0o2775))
	r := child{Source: src.dir, Target: dst.dir}.run(t, user)
	if r.Code != moverreport.CodeOK || !strings.Contains(strings.Join(r.Warnings, " "), "CAP_SYS_ADMIN") {
		t.Errorf("%+v", r)
	}
	asRoot := copyTree(t, Options{Source: src.dir, Target: newVolume(t, 32).dir})
	if strings.Contains(strings.Join(asRoot.Warnings, " "), "CAP_SYS_ADMIN") {
		t.Errorf("root can list all attributes: %q", asRoot.Warnings)
	}
}

// setProjectInheritance gives a directory a project and lets new entries inherit it, as provisioners with project quotas do.
func setProjectInheritance(t *testing.T, dir string, project string) {
	t.Helper()
	runCommand(t, "chattr", "-p", project, "+P", dir)
}

// projectOf returns the project id of a path as lsattr shows it.
func projectOf(t *testing.T, path string) string {
	t.Helper()
	return strings.Fields(runCommand(t, "lsattr", "-p", "-d", path))[0]
}

// The platform prepared the root of the target. The copy adds the flags of the source's root, and removes none.
func TestRootOfTargetKeepsFlagsOfPlatform(t *testing.T) {
	for name, mkfs := range map[string][]string{
		"xfs": {"mkfs.xfs", "-q"}, "btrfs": {"mkfs.btrfs", "-q"},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, mkfs...), newVolume(t, 400, mkfs...)
			must(t, os.Mkdir(src.dir+"/d", 0o755))
			writeFile(t, src.dir+"/d/f", "x")
			writeFile(t, src.dir+"/f", "x")
			runCommand(t, "chattr", "+S", src.dir)
			project := name != "btrfs"
			if project {
				setProjectInheritance(t, dst.dir, "77")
			} else {
				runCommand(t, "chattr", "+C", dst.dir)
			}
			for range 2 {
				r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
				kept := `the target's root directory keeps the inode flag C (chattr), which the source's root directory does not have`
				if got := strings.Join(r.Warnings, "; "); got != map[bool]string{true: "", false: kept}[project] {
					t.Errorf("the warnings are %q", got)
				}
				if got, want := flagLetters(t, dst.dir), map[bool]string{true: "SP", false: "SC"}[project]; got != want {
					t.Errorf("the root has the flags %q, not %q", got, want)
				}
				if got := strings.Trim(flagLetters(t, dst.dir+"/d")+flagLetters(t, dst.dir+"/f"), "P"); got != "" {
					t.Errorf("entries have the flags %q of the root", got)
				}
			}
			writeFile(t, dst.dir+"/d/later", "x")
			if got := projectOf(t, dst.dir+"/d/later"); project && got != "77" {
				t.Errorf("a later file has the project %s", got)
			}
		})
	}
}

// The root of the source is an entry of no directory, but it is refused like any entry that cannot be copied.
func TestImmutableRootIsRefused(t *testing.T) {
	for flag, word := range map[string]string{"i": "immutable", "a": "append-only"} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		writeFile(t, src.dir+"/f", "x")
		runCommand(t, "chattr", "+"+flag, src.dir)
		e := copyFails(t, Options{Source: src.dir, Target: dst.dir}, moverreport.CodeNotFaithful)
		runCommand(t, "chattr", "-"+flag, src.dir)
		if !strings.Contains(e.Message, "it is "+word+"; remove the flag with chattr -"+flag) {
			t.Error(e)
		}
		copyTree(t, Options{Source: src.dir, Target: dst.dir})
	}
}

// A copy of an unchanged file whose flags changed since the last copy carries the flags.
func TestFlagsThatChangeBetweenCopiesAreCarried(t *testing.T) {
	for _, change := range []string{"+S", "-d"} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		must(t, os.Mkdir(src.dir+"/dir", 0o755))
		for _, n := range []string{"dir/file", "plain"} {
			writeFile(t, src.dir+"/"+n, "x")
		}
		runCommand(t, "chattr", "+d", src.dir+"/dir", src.dir+"/dir/file")
		o := Options{Source: src.dir, Target: dst.dir}
		copyTree(t, o)
		runCommand(t, "chattr", change, src.dir+"/dir/file", src.dir+"/dir")
		if r := copyTree(t, o); r.Files != 1 || len(r.Warnings) != 0 { // only the file that changed
			t.Errorf("%+v", r)
		}
		for _, n := range []string{"dir", "dir/file", "plain"} {
			if a, b := flagLetters(t, src.dir+"/"+n), flagLetters(t, dst.dir+"/"+n); a != b {
				t.Errorf("chattr %s: %s has %q, not %q", change, n, b, a)
			}
		}
	}
}

// The verification sees flags that another process changes in the target, and a first pass records no such file.
func TestOtherFlagsInTargetAreMismatch(t *testing.T) {
	for _, n := range []string{"dir", "dir/file"} {
		src, dst := newVolume(t, 32), newVolume(t, 32)
		must(t, os.Mkdir(src.dir+"/dir", 0o755))
		writeFile(t, src.dir+"/dir/file", "x")
		waitSettled()
		o := Options{Source: src.dir, Target: dst.dir}
		o.hooks.synced = func() { runCommand(t, "chattr", "+d", dst.dir+"/"+n) }
		e := copyFails(t, o, moverreport.CodeMismatch)
		if !strings.Contains(e.Message, `its inode flags (chattr) are "d", not ""`) {
			t.Error(e)
		}
		o.hooks.synced = nil
		copyTree(t, o)
	}
}
