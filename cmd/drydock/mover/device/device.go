//go:build linux

// Package device copies a block device to another one.
package device

import (
	"errors"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
)

// device is an open block device.
type device struct {
	fd   int
	side fault.Side
	path string
	dev  uint64 // device number, the same under every name
	size int64
}

// openDevice opens a device. It opens a target exclusively, and refuses a target that is mounted or in use.
func openDevice(path string, s fault.Side, anyFile bool) (*device, error) {
	flags := unix.O_RDONLY
	if s == fault.Target {
		flags = unix.O_RDWR
	}
	fd, err := fsys.IgnoringEINTRValue(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, deviceError(fault.New(s, "opening the device", path, err))
	}
	d := &device{fd: fd, side: s, path: path}
	if err := d.identify(path, anyFile); err != nil {
		d.close()
		return nil, deviceError(fault.New(s, "opening the device", path, err))
	}
	return d, nil
}

var errNoDevice = errors.New("it is not a block device")

func (d *device) identify(path string, anyFile bool) error {
	st, err := fsys.Fstat(d.fd)
	if err != nil {
		return err
	}
	d.dev = st.Rdev
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFBLK && d.side == fault.Target:
		err = d.openExclusive(path)
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

// openExclusive opens the device again with O_EXCL, which has a meaning for block devices only.
func (d *device) openExclusive(path string) error {
	fd, err := fsys.IgnoringEINTRValue(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0) })
	if err != nil {
		return err
	}
	st, err := fsys.Fstat(fd)
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

func (d *device) fault(op string, err error) error { return fault.New(d.side, op, d.path, err) }

// dropCache drops the cached contents of a device, so that they are read from the device itself. None of them is dirty.
// fadvise does it where BLKFLSBUF is not allowed.
func (d *device) dropCache() error {
	if d.side == fault.Target {
		_, _ = fsys.IgnoringEINTRValue(func() (int, error) { return unix.IoctlRetInt(d.fd, unix.BLKFLSBUF) })
	}
	if err := fsys.IgnoringEINTR(func() error { return unix.Fadvise(d.fd, 0, 0, unix.FADV_DONTNEED) }); err != nil {
		return d.fault("dropping the cache of", err)
	}
	return nil
}

// deviceError turns a path that is missing or is not a device into a usage error.
func deviceError(err error) error {
	if fault.IsAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.EISDIR, errNoDevice) {
		return fault.UsageError(err)
	}
	return err
}
