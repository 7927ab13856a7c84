//go:build linux

package mover

import (
	"errors"

	"golang.org/x/sys/unix"
)

// device is an open block device.
type device struct {
	fd   int
	side side
	path string
	dev  uint64 // which device it is, by whatever name
	size int64
}

// openDevice opens a target for this process alone: what is mounted, or otherwise in use, is refused.
func openDevice(path string, s side, anyFile bool) (*device, error) {
	flags := unix.O_RDONLY
	if s == target {
		flags = unix.O_RDWR
	}
	fd, err := again(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, deviceError(&fault{s, "opening the device", path, err})
	}
	d := &device{fd: fd, side: s, path: path}
	if err := d.identify(path, anyFile); err != nil {
		d.close()
		return nil, deviceError(&fault{s, "opening the device", path, err})
	}
	return d, nil
}

var errNoDevice = errors.New("it is not a block device")

func (d *device) identify(path string, anyFile bool) error {
	st, err := fstat(d.fd)
	if err != nil {
		return err
	}
	d.dev = st.Rdev
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFBLK && d.side == target:
		err = d.claim(path)
	case st.Mode&unix.S_IFMT == unix.S_IFBLK:
	case anyFile && st.Mode&unix.S_IFMT == unix.S_IFREG:
		d.dev = st.Ino
	default:
		err = errNoDevice
	}
	if err == nil {
		d.size, err = unix.Seek(d.fd, 0, unix.SEEK_END)
	}
	return err
}

// claim opens the device again with O_EXCL, which is meaningful for block devices only.
func (d *device) claim(path string) error {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0) })
	if err != nil {
		return err
	}
	st, err := fstat(fd)
	if err == nil && st.Rdev != d.dev {
		err = errNoDevice
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	unix.Close(d.fd)
	d.fd = fd
	return nil
}

func (d *device) close() { unix.Close(d.fd) }

func (d *device) fault(op string, err error) error { return &fault{d.side, op, d.path, err} }

// deviceError makes what is missing or no device a wrong argument.
func deviceError(err error) error {
	if isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.EISDIR, errNoDevice) {
		return usageError(err)
	}
	return err
}

// forget drops what memory has of a device, so that it is read from the device itself. Nothing of it is dirty. Where
// BLKFLSBUF is not allowed, fadvise does it.
func (d *device) forget() error {
	if d.side == target {
		_, _ = again(func() (int, error) { return unix.IoctlRetInt(d.fd, unix.BLKFLSBUF) })
	}
	if err := againErr(func() error { return unix.Fadvise(d.fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
		return d.fault("dropping the cache of", err)
	}
	return nil
}
