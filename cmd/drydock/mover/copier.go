//go:build linux

package mover

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hooks let tests act at exact moments.
type hooks struct {
	copying func(path string)              // after a file was read, before it is checked for changes
	synced  func()                         // between sync and verify
	source  func(op, path string) error    // fails the reading of a source file
	wrote   func(path string, bytes int64) // after a piece of a file was written

	fileSystem  func(side) int64     // replaces the file system type of statfs
	flushed     func() error         // the outcome of flushing the source
	clockOffset func() time.Duration // replaces that of this node's clock
	noSettling  bool                 // a first pass skips the flush of the source and records recently changed files, too
	confirmed   func(path string)    // between reading a file and recording it
	recording   func()               // between writing the record and giving it its name
	selinux     func() string        // replaces the SELinux context of this process
	anyFile     bool                 // a regular file counts as a device
	statfs      func(*unix.Statfs_t) // changes the target's statfs result
	noPages     bool                 // no page of a record stays in memory
	runEntries  int                  // replaces the number of entries of a record that are in memory
}

// copier is one copy. The fields before the field problems do not change after the scan.
type copier struct {
	src, dst  *root
	tree      *tree
	scanBegan time.Time
	workers   int
	checksum  bool
	pass      Pass
	token     string
	settled   time.Duration
	margin    int
	ownOnly   bool
	refill    bool
	limit     *Limiter
	ownNames  []string // names in the target's root that belong to the mover
	marker    *os.File // nil if the target has no marker; see checkOwned
	hooks     hooks
	meter     *meter
	problems  problems

	temps       atomic.Uint64 // numbers the temporary names
	noRange     atomic.Bool   // copy_file_range does not work between these two file systems
	inodeOwners sync.Map      // inode of the target → the *group that uses it
	tryFlags    sync.Once     // sets lacksFlags, see missingFlags
	lacksFlags  uint32
	unsetFlags  atomic.Uint32 // could not be set or removed on some entry, which a warning names

	bytes, files, skipped, deleted atomic.Int64
	trustedFiles, trustedBytes     atomic.Int64

	twoPass  twoPassState
	last     *firstPassState // of the last first pass in this process; may be nil
	keeper   keeper
	cost     costs
	state    *firstPassState // nil until a first pass has succeeded
	measured Figures         // zero until then

	digest string
}

// twoPassState is the additional state of a copy in two passes. Its zero value trusts nothing and records nothing.
type twoPassState struct {
	id      recordID
	earlier *record       // the entries that an earlier first pass verified; nil if nothing is trusted
	presume bool          // see presume.go
	current *recordWriter // what this first pass verifies; nil if nothing is recorded
	saved   *inodeSet     // the files that it recorded; nil if nothing was recorded
	bound   unixTime      // files that changed at this time or later are not recorded, and big files must be older, see isOld
	clock   time.Duration // clockOffset at the same moment

	misjudged atomic.Bool // a presumption was wrong
}

// costs are the durations of a pass's phases.
type costs struct {
	scan, steps, flush time.Duration // steps: preparation, links and directory attributes
	copy, check        effort
}
