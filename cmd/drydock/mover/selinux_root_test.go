//go:build linux && root

package mover

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

func TestSELinuxIsNamedIfModeAllowsAccess(t *testing.T) {
	const context = "system_u:system_r:container_t:s0:c1,c2"
	needRoot(t)
	for name, c := range map[string]struct {
		context string
		errno   error
		want    moverreport.Reason
	}{
		"denied by SELinux":     {context, unix.EACCES, moverreport.ReasonSELinux},
		"no SELinux":            {"", unix.EACCES, moverreport.ReasonNotFaithful},
		"not allowed by rights": {context, unix.EPERM, moverreport.ReasonNotFaithful},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			must(t, os.MkdirAll(src+"/a/b", 0o755))
			writeFile(t, src+"/a/b/f", "x")
			o := Options{Source: src, Target: dst}
			o.hooks.source = func(string, string) error { return c.errno }
			o.hooks.selinux = func() string { return c.context }
			e := copyFails(t, o, moverreport.CodeNotFaithful)
			if e.Reason != c.want || strings.Contains(e.Message, "seLinuxOptions") != (c.want == moverreport.ReasonSELinux) {
				t.Errorf("%+v", e)
			}
			if c.want == moverreport.ReasonSELinux && !strings.Contains(e.Message, context) {
				t.Error(e)
			}
		})
	}
}
