//go:build linux

package fsys

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// In a user namespace that maps only some ids, and on an id-mapped mount, all other ids look alike: owners read as the overflow id, and
// ids in an ACL as -1. A copy would give such entries to the overflow id, and the verification would not see it. So the scan fails. It
// also fails for an entry that really belongs to the overflow id, which cannot be distinguished from the others.

// unknownIDs are the owners that stand for any id without a mapping. It is nil if every id has one.
type unknownIDs struct{ uid, gid uint32 }

// readUnknownIDs returns how ids without a mapping look to this process on a mount.
func readUnknownIDs(mount uint64) (*unknownIDs, error) {
	complete := true
	for _, name := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) { // a kernel without user namespaces
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		complete = complete && mapsAllIDs(string(text))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if complete && !isIDMapped(string(mounts), mount) {
		return nil, nil
	}
	ids := unknownIDs{65534, 65534} // the kernel's defaults
	for name, id := range map[string]*uint32{"overflowuid": &ids.uid, "overflowgid": &ids.gid} {
		if text, err := os.ReadFile("/proc/sys/kernel/" + name); err == nil {
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
				*id = uint32(n)
			}
		}
	}
	return &ids, nil
}

// mapsAllIDs reports whether the text of a uid_map or gid_map has a mapping for every id but -1.
func mapsAllIDs(text string) bool {
	all := uint64(0)
	for _, line := range strings.Split(text, "\n") {
		if fields := strings.Fields(line); len(fields) == 3 {
			n, _ := strconv.ParseUint(fields[2], 10, 64)
			all += n
		}
	}
	return all >= 1<<32-1
}

// isIDMapped reports whether the text of a mountinfo shows that a mount maps ids.
func isIDMapped(text string, mount uint64) bool {
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line) // mount, parent, device, root, mount point, options of the mount, ...
		if len(fields) > 5 && fields[0] == strconv.FormatUint(mount, 10) {
			return slices.Contains(strings.Split(fields[5], ","), "idmapped")
		}
	}
	return false
}

// CheckOwner returns an error if an owner may stand for an id without a mapping.
func (u *unknownIDs) CheckOwner(m *unix.Stat_t) error {
	if u == nil || m.Uid != u.uid && m.Gid != u.gid {
		return nil
	}
	return unmappedError(fmt.Sprintf("its owner %d:%d", m.Uid, m.Gid))
}

// checkACL returns an error if an ACL names an id without a mapping.
func checkACL(attribute string, value []byte) error {
	if !strings.HasPrefix(attribute, "system.posix_acl_") || len(value) < 4 {
		return nil
	}
	const user, group = 0x02, 0x08 // the entries that name an id, see acl(5)
	for b := value[4:]; len(b) >= 8; b = b[8:] {
		tag, id := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint32(b[4:])
		if (tag == user || tag == group) && id == 1<<32-1 {
			return unmappedError("an id in it")
		}
	}
	return nil
}

func unmappedError(what string) error {
	return &uncopyableError{fmt.Errorf("%s may stand for any id that this mover's user namespace or its mount does not map; "+
		"run the mover without a user namespace (hostUsers: true) and mount the volume without id mapping", what)}
}
