package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// disk runs the commands for file systems and loop devices.
type disk struct{}

// Supported file systems.
const (
	ext4 = "ext4"
	xfs  = "xfs"
)

// makers holds the commands that create file systems with the most space for data. Nothing is reserved for root. ext4 has no journal,
// because no volume outlives a crash of the machine. mkfs.xfs rejects less than 300 MiB for performance; the kernel has no such limit.
// With small allocation groups a small volume can grow by whole groups.
var makers = map[string][]string{
	ext4: {"mkfs.ext4", "-q", "-F", "-m", "0", "-i", "16384", "-O", "^has_journal", "-E", "nodiscard"},
	xfs:  {"mkfs.xfs", "--unsupported", "-q", "-K", "-m", "reflink=0,rmapbt=0", "-d", "agsize=16m"},
}

// format creates a file system in an image.
func (disk) format(ctx context.Context, fileSystem, image string) error {
	maker, known := makers[fileSystem]
	if !known {
		return fmt.Errorf("file system %q is not supported. Use %s or %s", fileSystem, ext4, xfs)
	}
	_, err := command(ctx, maker[0], append(maker[1:], image)...)
	return err
}

// copy creates an image with the content of another one.
func (disk) copy(ctx context.Context, from, to string) error {
	_, err := command(ctx, "cp", "--sparse=always", "--reflink=auto", from, to)
	return err
}

// device returns the loop device of an image, or "".
func (disk) device(ctx context.Context, image string) (string, error) {
	if _, err := os.Stat(image); os.IsNotExist(err) {
		return "", nil
	}
	return command(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", image)
}

// attach returns the loop device of an image, and creates it if needed.
func (d disk) attach(ctx context.Context, image string) (string, error) {
	device, err := d.device(ctx, image)
	if err != nil || device != "" {
		return device, err
	}
	return command(ctx, "losetup", "--find", "--show", image)
}

// detach removes the loop device of an image, if there is one. The kernel removes it after the last unmount.
func (d disk) detach(ctx context.Context, image string) error {
	device, err := d.device(ctx, image)
	if err != nil || device == "" {
		return err
	}
	_, err = command(ctx, "losetup", "--detach", device)
	return err
}

// enlarge makes an image, and its loop device if any, at least as large as the given size. The image is sparse and uses disk space only for
// data.
func (d disk) enlarge(ctx context.Context, image string, bytes int64) error {
	file, err := os.OpenFile(image, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening an image: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the size of an image: %w", err)
	}
	if info.Size() < bytes {
		if err := file.Truncate(bytes); err != nil {
			return fmt.Errorf("setting the size of an image to %d bytes: %w", bytes, err)
		}
	}
	device, err := d.device(ctx, image)
	if err != nil || device == "" {
		return err
	}
	_, err = command(ctx, "losetup", "--set-capacity", device)
	return err
}

// checkAndGrow grows an unmounted ext4 to the size of its device. xfs can only grow while it is mounted.
func (disk) checkAndGrow(ctx context.Context, fileSystem, device string) error {
	if fileSystem != ext4 {
		return nil
	}
	if same, err := fillsDevice(ctx, device); err != nil || same {
		return err
	}
	if _, err := command(ctx, "e2fsck", "-f", "-p", device); err != nil {
		return err
	}
	_, err := command(ctx, "resize2fs", device)
	return err
}

// fillsDevice reports whether an ext4 uses its whole device, except for less than one block.
func fillsDevice(ctx context.Context, device string) (bool, error) {
	size, err := command(ctx, "blockdev", "--getsize64", device)
	if err != nil {
		return false, err
	}
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return false, fmt.Errorf("reading the size of %s: %w", device, err)
	}
	header, err := command(ctx, "dumpe2fs", "-h", device)
	if err != nil {
		return false, err
	}
	count, block := headerField(header, "Block count"), headerField(header, "Block size")
	return block > 0 && bytes-count*block < block, nil
}

// headerField returns the number in a line such as "Block count:              16384".
func headerField(header, name string) int64 {
	for line := range strings.Lines(header) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			number, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64) // 0 causes a resize, which is harmless
			return number
		}
	}
	return 0
}

// growMounted grows a mounted file system to the size of its device. A mounted ext4 needs CAP_SYS_RESOURCE to grow.
func (disk) growMounted(ctx context.Context, fileSystem, device, mountPoint string) error {
	if fileSystem == xfs {
		_, err := command(ctx, "xfs_growfs", mountPoint)
		return err
	}
	if same, err := fillsDevice(ctx, device); err != nil || same {
		return err
	}
	_, err := command(ctx, "resize2fs", device)
	return err
}

// setReadAhead sets the read-ahead of a device.
func (disk) setReadAhead(device, kibibytes string) error {
	path := filepath.Join("/sys/block", filepath.Base(device), "queue", "read_ahead_kb")
	if err := os.WriteFile(path, []byte(kibibytes), 0o644); err != nil {
		return fmt.Errorf("setting the read-ahead of %s: %w", device, err)
	}
	return nil
}

// command runs a command and returns its trimmed output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if exit, ended := err.(*exec.ExitError); ended && name == "e2fsck" && exit.ExitCode() == 1 {
		err = nil // errors were corrected
	}
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}
