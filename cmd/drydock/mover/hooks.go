//go:build linux

package mover

import (
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/tree"
)

// hooks let tests act at exact moments.
type hooks struct {
	copying func(path string)              // after a file was read, before it is checked for changes
	synced  func()                         // between sync and verify
	source  func(op, path string) error    // fails the reading of a source file
	wrote   func(path string, bytes int64) // after a piece of a file was written

	fileSystem  func(fault.Side) int64 // replaces the file system type of statfs
	flushed     func() error           // the outcome of flushing the source
	clockOffset func() time.Duration   // replaces that of this node's clock
	noSettling  bool                   // a first pass skips the flush of the source and records recently changed files, too
	confirmed   func(path string)      // between reading a file and recording it
	recording   func()                 // between writing the record and giving it its name
	selinux     func() string          // replaces the SELinux context of this process
	anyFile     bool                   // a regular file counts as a device
	statfs      func(*unix.Statfs_t)   // changes the target's statfs result
}

// These methods are the seams of the packages below. Paths are made only for a test.

func call(f func(path string), d *tree.Dir, name string) {
	if f != nil {
		f(d.Join(name))
	}
}

func (h *hooks) OpeningFile(d *tree.Dir, name string) error {
	if h.source == nil {
		return nil
	}
	return h.source("opening", d.Join(name))
}

func (h *hooks) FileCopied(d *tree.Dir, name string)    { call(h.copying, d, name) }
func (h *hooks) FileConfirmed(d *tree.Dir, name string) { call(h.confirmed, d, name) }

func (h *hooks) FileWritten(d *tree.Dir, name string, written int64) {
	if h.wrote != nil {
		h.wrote(d.Join(name), written)
	}
}

func (h *hooks) DeviceWritten(written int64) {
	if h.wrote != nil {
		h.wrote("", written)
	}
}

func (h *hooks) TargetSynced() {
	if h.synced != nil {
		h.synced()
	}
}

func (h *hooks) AcceptsAnyFile() bool { return h.anyFile }

func (h *hooks) SourceFlushed() error {
	if h.flushed == nil {
		return nil
	}
	return h.flushed()
}

func (h *hooks) ReplacedClock() (time.Duration, bool) {
	if h.clockOffset == nil {
		return 0, false
	}
	return h.clockOffset(), true
}

func (h *hooks) SkipsSettling() bool { return h.noSettling }

func (h *hooks) TargetSize(st *unix.Statfs_t) {
	if h.statfs != nil {
		h.statfs(st)
	}
}
