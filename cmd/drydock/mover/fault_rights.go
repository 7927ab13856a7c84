//go:build linux

package mover

import (
	"fmt"

	"drydock.dev/shared/moverreport"
	"golang.org/x/sys/unix"
)

// rightsAdvice returns the advice for NotFaithful. It does not ask for rights that this process has.
func rightsAdvice() string {
	if hasCapability(unix.CAP_DAC_OVERRIDE) && hasCapability(unix.CAP_CHOWN) {
		return "This process has root's rights: remove the cause, or choose a target that can hold the entries. " +
			"An NFS export with root_squash takes these rights away"
	}
	return "Run the copy as root with CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP and MKNOD, or choose a target that can hold the entries"
}

// adviseSELinux replaces the advice, because more rights do not help against SELinux.
func adviseSELinux(e *Error, context string) {
	e.Reason = moverreport.ReasonSELinux
	e.Message = fmt.Sprintf("%s cannot be read. First: %s. Mode and owner allow it, so SELinux is the likely cause: this process runs as %s. "+
		"Set seLinuxOptions.level in the pod template's securityContext to the level of the files (ls -Z)",
		countOf(e.Count), e.Paths[0], context)
}

// effectiveCapabilities returns the effective capabilities of this process as a set of bits.
func effectiveCapabilities() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

func hasCapability(n int) bool { return effectiveCapabilities()>>n&1 != 0 }

// seesTrusted reports whether this process can list attributes of the namespace trusted.
func seesTrusted() bool { return hasCapability(unix.CAP_SYS_ADMIN) }
