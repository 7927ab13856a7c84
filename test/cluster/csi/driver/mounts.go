package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// mount is a line of /proc/self/mountinfo.
type mount struct{ point, fileSystem, device string }

func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return parseMounts(string(text)), nil
}

// parseMounts parses mountinfo, proc_pid_mountinfo(5). The fifth field is the mount point; file system and device follow a dash.
func parseMounts(mountinfo string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []mount
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(source) < 2 {
			continue
		}
		found = append(found, mount{unescape.Replace(fields[4]), source[0], unescape.Replace(source[1])})
	}
	return found
}

// mountAt returns the newest mount at a path, or nil.
func mountAt(point string) (*mount, error) {
	all, err := mounts()
	for _, m := range slices.Backward(all) {
		if m.point == point {
			return &m, nil
		}
	}
	return nil, err
}

// mountOf returns a mount of a device's file system, or nil.
func mountOf(device string) (*mount, error) {
	all, err := mounts()
	for _, m := range all {
		if m.device == device {
			return &m, nil
		}
	}
	return nil, err
}

// unmount removes every mount at a path. It is safe to repeat.
func unmount(ctx context.Context, point string) error {
	for {
		at, err := mountAt(point)
		if err != nil || at == nil {
			return err
		}
		if _, err := command(ctx, "umount", point); err != nil {
			return err
		}
	}
}
