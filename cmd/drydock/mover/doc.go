// Package mover copies the tree of one mounted volume to another so that programs cannot distinguish the two, and proves it.
//
//	scan    walk the source once; the stat of every entry defines the copy
//	check   the target is empty or belongs to this operation (OwnOnly), can become faithful, and has enough space
//	copy    delete names that the source does not have, create directories, copy files, link, then set directories' attributes
//	sync    syncfs on the target: the only flush, and its error counts
//	verify  read both sides again, the target from its device, and compare bytes and attributes
//	        (a first pass does not read small files of the source again, see write.Files)
//
// # What is carried
//
// Entries: regular files with their holes, directories, symbolic links, hard links, fifos, sockets and device nodes.
//
// Attributes: owner, group, mode with set-id and sticky bits, and modification time to the nanosecond. POSIX ACLs and
// extended attributes of three namespaces: user, trusted (visible only with CAP_SYS_ADMIN), and security without
// security.selinux, which the platform sets. Inode flags (chattr) as far as the target supports them.
//
// Immutable, append-only, encrypted and verity files fail the run. Other extended attributes, project ids, extent size
// hints, preallocation, access and birth times belong to a file system and stay there. The report warns of all these except
// the times, see write.Flags.NoteLosses, and of lost inode flags. Reading a source that is mounted writable changes its access times.
//
// An empty lost+found that mkfs created belongs to the file system. Subvolumes become plain directories, with a warning. A
// mount point below the root fails the run (CodeNotFaithful).
//
// # Crash safety
//
// A file gets its name only after its contents and attributes are complete: it has a temporary name until it is renamed. A
// directory that this run created, or found empty, has nothing to replace. There a file has its final name at once. Until it
// is complete it has no mode, and its time is set last.
//
// To resume a killed run, run it again. It deletes leftover temporary files, like all names that the source does not have. It
// does not copy files again that are equal in size, mtime, mode, owner and extended attributes. A torn file is not equal, so
// it is replaced. In two passes a big file is written under its final name, see BigFileMin.
//
// # Hostile trees
//
// Names are bytes. Every access below a root is relative to a directory descriptor and never follows a symbolic link,
// so no link in either tree leads out of it. Paths may be longer than PATH_MAX and trees deeper than the descriptor limit.
//
// # Rights
//
// A process that owns all files of the source needs no capability. Files of several owners need CAP_CHOWN, CAP_DAC_OVERRIDE,
// CAP_FOWNER and CAP_FSETID. File capabilities also need CAP_SETFCAP, and devices CAP_MKNOD. Entries that the process cannot
// reproduce are collected, reported and fail the run (CodeNotFaithful). No entry is left out silently.
//
// # Memory
//
// The scan keeps some 20 bytes for each entry, in blocks, and some 400 bytes for each directory. A step unpacks one block
// at a time for each worker. Names of several links take some 100 bytes each. Each worker has a buffer of 128 KiB, and up
// to eight while it updates a big file.
//
// A record takes 24 bytes for each file, and stays in memory in a process that makes several passes. A first pass with an earlier record
// has two of them. Such a process also keeps 40 bytes for each directory, and 32 bytes for each 64 KiB of big files, up to 32 MiB; while
// it uses the hashes of the pass before, up to four times as much. A first pass without an earlier record keeps 32 bytes for each entry,
// up to 32 MiB. A device takes 8 bytes for each 4 MiB.
//
// # Two passes
//
// A first pass copies a source that is in use. It tolerates entries that change while it reads. It verifies the other
// entries and records them. trust.begin, IsSettled and trustedFileSystems say which
// entries can be recorded. A first pass also measures, see Figures, and can be slowed down, see Limiter.
//
// The final pass runs when nothing writes to the source. It copies the differences. It does not read a recorded file whose
// inodes on both sides have not changed since, see write.Files. Of a big file it writes only the blocks that differ, and with
// the hashes that the process has kept, it reads only these in the target, see units.Keeper. Without a valid record the
// final pass reads everything. A record is valid if it is complete and belongs to this operation, member, kernel boot, mount
// and pair of roots. In all other respects a final pass proves the same as an ordinary copy.
//
// # Devices
//
// CopyDevice copies one block device to the beginning of another one, and writes only the blocks that differ.
package mover
