package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Disk keeps each volume in a folder: the file "image" and the mount "data".
type Disk struct{ Folder string }

// Supported file systems.
const (
	ext4 = "ext4"
	xfs  = "xfs"
)

// makers are the commands that make a file system in a file of the volume's size, of which as much as possible is for
// data: nothing is set aside for root, and ext4 has no journal, since no volume outlives a crash of the machine.
// mkfs.xfs calls less than 300 MiB unsupported because of its performance; the kernel has no such limit. Small allocation
// groups let a small volume grow by whole ones.
var makers = map[string][]string{
	ext4: {"mkfs.ext4", "-q", "-m", "0", "-i", "16384", "-O", "^has_journal", "-E", "nodiscard"},
	xfs:  {"mkfs.xfs", "--unsupported", "-q", "-K", "-m", "reflink=0,rmapbt=0", "-d", "agsize=16m"},
}

// Data is where a volume is mounted.
func (d *Disk) Data(volume string) string  { return filepath.Join(d.Folder, volume, "data") }
func (d *Disk) image(volume string) string { return filepath.Join(d.Folder, volume, "image") }

// Make makes and mounts a volume.
func (d *Disk) Make(ctx context.Context, volume, fileSystem string, bytes int64) error {
	maker, known := makers[fileSystem]
	if !known {
		return fmt.Errorf("the file system %q is none of %s and %s", fileSystem, ext4, xfs)
	}
	if err := d.makeImage(ctx, volume, bytes); err != nil {
		return err
	}
	if _, err := command(ctx, maker[0], append(maker[1:], d.image(volume))...); err != nil {
		return fmt.Errorf("making the file system of volume %s: %w", volume, err)
	}
	device, err := d.attach(ctx, volume)
	if err != nil {
		return err
	}
	if _, err := command(ctx, "mount", "-t", fileSystem, device, d.Data(volume)); err != nil {
		return errors.Join(fmt.Errorf("mounting volume %s: %w", volume, err), d.Remove(ctx, volume))
	}
	return nil
}

// MakeDevice makes a volume without a file system, and says which device it is.
func (d *Disk) MakeDevice(ctx context.Context, volume string, bytes int64) (string, error) {
	if err := d.makeImage(ctx, volume, bytes); err != nil {
		return "", err
	}
	return d.attach(ctx, volume)
}

// makeImage makes the file of a volume. What an interrupted attempt left is removed first.
func (d *Disk) makeImage(ctx context.Context, volume string, bytes int64) error {
	if err := d.Remove(ctx, volume); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Data(volume), 0o755); err != nil {
		return fmt.Errorf("making the folder of volume %s: %w", volume, err)
	}
	return setSize(d.image(volume), bytes)
}

func (d *Disk) attach(ctx context.Context, volume string) (string, error) {
	device, err := command(ctx, "losetup", "--find", "--show", d.image(volume))
	if err != nil {
		return "", fmt.Errorf("making the device of volume %s: %w", volume, err)
	}
	return device, nil
}

// Has reports whether the volume is one of the folder.
func (d *Disk) Has(volume string) bool {
	_, err := os.Stat(d.image(volume))
	return err == nil
}

// Grow makes a mounted volume larger. It is safe to repeat.
func (d *Disk) Grow(ctx context.Context, volume string, bytes int64) error {
	device, err := d.device(ctx, volume)
	if err != nil {
		return err
	}
	if err := setSize(d.image(volume), bytes); err != nil {
		return err
	}
	if _, err := command(ctx, "losetup", "--set-capacity", device); err != nil {
		return fmt.Errorf("growing the device of volume %s: %w", volume, err)
	}
	if _, err := command(ctx, "xfs_growfs", d.Data(volume)); err != nil {
		return fmt.Errorf("growing the file system of volume %s: %w", volume, err)
	}
	return nil
}

// Remove unmounts a volume and removes its file. It is safe to repeat, and for a volume that is not there.
func (d *Disk) Remove(ctx context.Context, volume string) error {
	if err := d.unmount(ctx, volume); err != nil {
		return err
	}
	device, err := d.device(ctx, volume)
	if err == nil {
		// The kernel waits with it until the last container that has the volume mounted is gone.
		if _, err := command(ctx, "losetup", "--detach", device); err != nil {
			return fmt.Errorf("removing the device of volume %s: %w", volume, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(filepath.Join(d.Folder, volume)); err != nil {
		return fmt.Errorf("removing the file of volume %s: %w", volume, err)
	}
	return nil
}

func (d *Disk) unmount(ctx context.Context, volume string) error {
	if _, err := command(ctx, "mountpoint", "--quiet", d.Data(volume)); err != nil {
		return nil // nothing is mounted there
	}
	if _, err := command(ctx, "umount", d.Data(volume)); err != nil {
		return fmt.Errorf("unmounting volume %s: %w", volume, err)
	}
	return nil
}

// device finds the loop device of a volume; fs.ErrNotExist says that there is none.
func (d *Disk) device(ctx context.Context, volume string) (string, error) {
	if _, err := os.Stat(d.image(volume)); err != nil {
		return "", fmt.Errorf("looking for volume %s: %w", volume, err)
	}
	device, err := command(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", d.image(volume))
	if err != nil {
		return "", fmt.Errorf("finding the device of volume %s: %w", volume, err)
	}
	if device == "" {
		return "", fmt.Errorf("volume %s has no device: %w", volume, fs.ErrNotExist)
	}
	return device, nil
}

// setSize makes the file as long as the volume; it takes space as the volume fills. It never makes one shorter.
func setSize(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the file of a volume: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the size of a volume: %w", err)
	}
	if info.Size() >= bytes {
		return nil
	}
	if err := file.Truncate(bytes); err != nil {
		return fmt.Errorf("setting the size of a volume to %s bytes: %w", strconv.FormatInt(bytes, 10), err)
	}
	return nil
}

// command runs a command that prints at most one line.
func command(ctx context.Context, name string, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}
