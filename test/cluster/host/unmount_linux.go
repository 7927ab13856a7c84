package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// thawFileSystem is the ioctl FITHAW of linux/fs.h.
const thawFileSystem = 0xc0045878

// unmount detaches the mount at once. The kernel releases it after its last user.
func unmount(path string) error {
	thaw(path)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}

// thaw thaws a file system that a killed program left frozen. A frozen file system would keep its loop device for ever. Most file systems
// are not frozen; the kernel's error for them is ignored.
func thaw(path string) {
	folder, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // not a folder, or already unmounted
	}
	defer unix.Close(folder)
	_ = unix.IoctlSetInt(folder, thawFileSystem, 0)
}
