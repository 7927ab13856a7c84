//go:build linux

package mover

import "golang.org/x/sys/unix"

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
