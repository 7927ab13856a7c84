//go:build linux

package mover

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
)

// selinuxCause returns the SELinux context of this process if SELinux denies it an entry of the source although the
// entry's mode allows it. Otherwise it returns "".
func (c *copier) selinuxCause(f *fault.Fault) string {
	if f.Side != fault.Source || !errors.Is(f, unix.EACCES) {
		return ""
	}
	label := c.hooks.selinux
	if label == nil {
		label = selinuxContext
	}
	context := label()
	if context == "" || !c.modeAllows(f.Path) {
		return ""
	}
	return context
}

// modeAllows reports whether owner and mode let this process read an entry of the source.
func (c *copier) modeAllows(name string) bool {
	if fault.HasCapability(unix.CAP_DAC_OVERRIDE) {
		return true
	}
	by, err := fsys.Self()
	if err != nil {
		return false
	}
	parent, dir := c.Src.Fd, path.Dir(name)
	if dir != "." && name != "" {
		if parent, err = c.Src.Open(dir); err != nil {
			return false
		}
		defer unix.Close(parent)
	}
	base := ""
	if name != "" {
		base = path.Base(name)
	}
	st, err := fsys.StatEntry(parent, base)
	return err == nil && by.MayRead(&st)
}

// selinuxContext returns the SELinux context of this process, or "" if SELinux does not enforce.
func selinuxContext() string {
	current, err := os.ReadFile("/proc/self/attr/current")
	if err != nil {
		return ""
	}
	enforce, err := os.ReadFile("/sys/fs/selinux/enforce")
	if err != nil { // often hidden from containers
		enforce = nil
	}
	return parseContext(current, enforce)
}

// parseContext returns an SELinux context (user:role:type:level), or "" for the label of another security module.
func parseContext(current, enforce []byte) string {
	context := strings.TrimSpace(string(bytes.Trim(current, "\x00")))
	if strings.Count(context, ":") < 3 || strings.TrimSpace(string(enforce)) == "0" {
		return ""
	}
	return context
}
