//go:build linux

package mover

import (
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
)

func TestOnlySELinuxContextsAreParsed(t *testing.T) {
	for _, c := range [][3]string{
		{"system_u:system_r:container_t:s0:c1,c2\x00", "1", "system_u:system_r:container_t:s0:c1,c2"},
		{"system_u:system_r:container_t:s0", "", "system_u:system_r:container_t:s0"},
		{"system_u:system_r:container_t:s0", "0\n", ""},
		{"docker-default (enforce)\n", "", ""},
		{"unconfined\n", "", ""},
		{"", "", ""},
	} {
		if got := parseContext([]byte(c[0]), []byte(c[1])); got != c[2] {
			t.Errorf("%q: %q", c, got)
		}
	}
}

func TestModeAllows(t *testing.T) {
	by := fsys.Identity{Uid: 1000, Groups: []int{2000, 3000}}
	for _, c := range []struct {
		mode, uid, gid uint32
		want           bool
	}{
		{unix.S_IFREG | 0o400, 1000, 1, true}, {unix.S_IFREG | 0o044, 1000, 1, false},
		{unix.S_IFREG | 0o040, 1, 3000, true}, {unix.S_IFREG | 0o404, 1, 3000, false},
		{unix.S_IFREG | 0o004, 1, 1, true}, {unix.S_IFREG | 0o770, 1, 1, false},
		{unix.S_IFDIR | 0o500, 1000, 1, true}, {unix.S_IFDIR | 0o400, 1000, 1, false},
	} {
		var st fsys.FileStat
		st.Mode, st.Uid, st.Gid = c.mode, c.uid, c.gid
		if got := by.MayRead(&st); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
