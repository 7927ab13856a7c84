package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// thawFileSystem is FITHAW of linux/fs.h.
const thawFileSystem = 0xc0045878

// unmount detaches the mount at once; the kernel frees it when its last user is gone.
func unmount(path string) error {
	thaw(path)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}

// thaw lets a file system go on that a killed program left frozen: it would keep its loop device for ever. Most are not frozen, which the
// kernel answers with an error.
func thaw(path string) {
	folder, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // not a folder, or gone
	}
	defer unix.Close(folder)
	_ = unix.IoctlSetInt(folder, thawFileSystem, 0)
}
