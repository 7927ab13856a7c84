package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Mounts returns the mount points below a folder, in the order of mounting.
func Mounts(dir string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return mountsBelow(string(text), dir), nil
}

// mountsBelow returns the mount points from mountinfo, which has them in the fifth field; see proc_pid_mountinfo(5).
func mountsBelow(mountinfo, dir string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	return found
}

// unescape decodes the octal escapes of mountinfo: blank, tab, newline and backslash.
func unescape(field string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(field)
}

// UnmountAll unmounts everything below a folder, the newest first.
func UnmountAll(ctx context.Context, dir string) error {
	return untilNone(ctx, 10*time.Second, "mounts below "+dir, func() (int, error) {
		mounts, err := Mounts(dir)
		for _, point := range slices.Backward(mounts) {
			if err := unmount(point); err != nil {
				return 0, err
			}
		}
		return len(mounts), err
	})
}

// Loops returns the loop devices of files below a folder.
func Loops(dir string) ([]string, error) {
	links, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, fmt.Errorf("listing loop devices: %w", err)
	}
	var found []string
	for _, link := range links {
		file, err := os.ReadFile(link)
		if err != nil {
			continue // detached after it was listed
		}
		if strings.HasPrefix(string(file), dir+"/") {
			found = append(found, filepath.Join("/dev", strings.Split(link, "/")[3]))
		}
	}
	return found, nil
}

// DetachLoops detaches the loop devices of files below a folder.
func DetachLoops(ctx context.Context, dir string) error {
	return untilNone(ctx, 10*time.Second, "loop devices of "+dir, func() (int, error) {
		loops, err := Loops(dir)
		for _, device := range loops {
			if _, err := Run(ctx, "losetup", "--detach", device); err != nil && stillAttached(device) {
				return 0, err
			}
		}
		return len(loops), err
	})
}

func stillAttached(device string) bool {
	_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(device), "loop"))
	return err == nil
}

// BootID returns an id that changes with every boot. Mounts, processes and links of an earlier boot no longer exist.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the machine's boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// RemoveSockets removes the sockets of the containers' shims. containerd stores them in a fixed folder outside of its configured ones. The
// folder of each container has a file "address" with the path of the socket.
func RemoveSockets(containerdState string) error {
	files, err := filepath.Glob(filepath.Join(containerdState, "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return fmt.Errorf("listing the sockets of containers: %w", err)
	}
	for _, file := range files {
		address, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the socket of a container: %w", err)
		}
		socket := strings.TrimPrefix(string(address), "unix://")
		if filepath.Dir(socket) != "/run/containerd/s" {
			continue
		}
		if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing the socket of a container: %w", err)
		}
	}
	return nil
}
