//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"testing"
)

// bindMount shows a directory at another place.
func bindMount(t *testing.T, from, at string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o755))
	runCommand(t, "mount", "--bind", from, at)
	t.Cleanup(func() { unmount(t, at) })
}

// A directory of the same file system is mounted inside the target. It is not part of the target, as it would not be part of a source.
// The mover must neither write there nor delete there.
func TestMountInsideTargetIsLeftAlone(t *testing.T) {
	for _, inSource := range []bool{true, false} {
		v, src := newVolume(t, 64), newVolume(t, 64)
		must(t, os.MkdirAll(v.dir+"/other", 0o755))
		writeFile(t, v.dir+"/other/precious", "of somebody else")
		must(t, os.MkdirAll(v.dir+"/target/sub", 0o755))
		bindMount(t, v.dir+"/other", v.dir+"/target/sub")
		writeFile(t, src.dir+"/file", "x")
		if inSource {
			must(t, os.Mkdir(src.dir+"/sub", 0o755))
			writeFile(t, src.dir+"/sub/f", "x")
		}
		_, err := Copy(context.Background(), Options{Source: src.dir, Target: v.dir + "/target"})
		if have := namesIn(t, v.dir+"/other"); have != "precious" {
			t.Errorf("the source has the name: %v: the copy (%v) changed a directory outside of the target: it has %q", inSource, err, have)
		}
	}
}

// One volume is a directory in the other one, and both are bind mounts, as those of a container are. No path leads from one to the other.
// A copy must refuse them: it would delete its source, or copy the target into itself.
func TestVolumeInsideOtherVolumeIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, source, target string
		ownOnly              bool
	}{
		{"source inside target", "/outer/inner", "/outer", false},
		{"target inside source", "/outer", "/outer/inner", false},
		{"source inside target, as in a cluster", "/outer/inner", "/outer", true},
		{"target inside source, as in a cluster", "/outer", "/outer/inner", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, base := newVolume(t, 64), publicTempDir(t)
			must(t, os.MkdirAll(v.dir+"/outer/inner", 0o755))
			writeFile(t, v.dir+c.source+"/precious", "the only copy")
			bindMount(t, v.dir+c.source, base+"/source")
			bindMount(t, v.dir+c.target, base+"/target")
			for _, pass := range []Pass{PassFirst, PassFirst, PassFinal} {
				_, err := Copy(context.Background(), Options{Source: base + "/source", Target: base + "/target", Pass: pass, Token: operation,
					OwnOnly: c.ownOnly})
				if err == nil {
					t.Errorf("pass %d: the copy was not refused", pass)
				}
				if b, rerr := os.ReadFile(v.dir + c.source + "/precious"); rerr != nil || string(b) != "the only copy" {
					t.Fatalf("pass %d ended with %v, and the source has lost its file: %v", pass, err, rerr)
				}
			}
			if c.source == "/outer" && namesIn(t, v.dir+"/outer/inner") != "" {
				t.Errorf("the copy wrote into its own source: %q", runCommand(t, "find", v.dir+"/outer/inner"))
			}
		})
	}
}

// A big file of the same file system is mounted at a name of the target. A patch writes into the mounted file.
func TestPatchDoesNotWriteToMountedFile(t *testing.T) {
	v, src := newVolume(t, 64), newVolume(t, 64)
	must(t, os.Mkdir(v.dir+"/target", 0o755))
	precious := bytes.Repeat([]byte("p"), 2<<20)
	must(t, os.WriteFile(v.dir+"/precious", precious, 0o644))
	writeFile(t, v.dir+"/target/db", "")
	runCommand(t, "mount", "--bind", v.dir+"/precious", v.dir+"/target/db")
	t.Cleanup(func() { unmount(t, v.dir+"/target/db") })
	must(t, os.WriteFile(src.dir+"/db", bytes.Repeat([]byte("s"), 2<<20), 0o644))
	waitSettled()
	_, err := Copy(context.Background(), firstPass(src.dir, v.dir+"/target"))
	have, rerr := os.ReadFile(v.dir + "/precious")
	must(t, rerr)
	if !bytes.Equal(have, precious) {
		t.Errorf("the pass (%v) wrote into a file outside of the target", err)
	}
}
