// Package mover copies the tree of one mounted volume to another so that nothing can tell the two apart, and proves it.
//
//	scan    walk the source once; every entry's stat is kept and is the statement of what is being copied
//	check   the target is empty or this operation's (OwnOnly), can be faithful, and has room
//	copy    delete what the source does not have, make directories, copy files, link, then set directories' attributes
//	sync    syncfs on the target: the only flush, and its error counts
//	verify  read both sides again, the target from its device, and compare contents and attributes
//
// # What is carried
//
// Regular files with their holes, directories, symbolic links, hard links, fifos, sockets, device nodes; owner, group,
// mode with set-id and sticky bits, modification time to the nanosecond; extended attributes of the namespaces user,
// trusted (seen only with CAP_SYS_ADMIN) and security (without security.selinux, which the platform sets), and POSIX ACLs.
// Inode flags (chattr) are carried as far as the target knows them; immutable, append-only, encrypted and verity files fail
// the run. Extended attributes of other namespaces, project ids, access and birth times belong to a file system and stay
// there. What is seen to be left out is a warning.
// An empty lost+found of mkfs's belongs to the file system. Subvolumes become plain directories, with a warning. A directory
// or file on which something else is mounted fails the run (CodeNotFaithful).
//
// # Crash safety
//
// A file gets its name only after its contents and attributes are complete (temporary name, then rename). In a directory
// that this run has made, or found empty, there is nothing to replace: there a file has its name at once, and until it is
// complete no mode and not its time, which is set last. A run that was killed is resumed by running it again: leftover
// temporary files are, like all names the source does not have, deleted, files that are equal in size, mtime, mode, owner
// and extended attributes are not copied again, and a torn file, which is not, is replaced. Between two passes a big file is
// written under its name, see patchLeast.
//
// # Hostile trees
//
// Names are bytes. Every access below a root is relative to a directory descriptor and never follows a symbolic link,
// so no link in either tree leads out of it. Paths may be longer than PATH_MAX and trees deeper than the descriptor limit.
//
// # Rights
//
// A process that owns all files of the source needs none. To copy files of several owners: CAP_CHOWN, CAP_DAC_OVERRIDE,
// CAP_FOWNER, CAP_FSETID, and CAP_SETFCAP or CAP_MKNOD where there are file capabilities or devices. What the process's
// rights cannot reproduce is collected, reported and fails the run (CodeNotFaithful); nothing is silently left out.
//
// # Memory
//
// The scan keeps 88 bytes and the name for each entry, and 64 bytes more for each directory: about 110 MB for a million
// files. Verification adds 64 bytes for each entry of the directories being read. Each worker has a buffer of 128 KiB, and up
// to eight while it compares a big file.
// A record of a warm pass takes 56 bytes for each file, in memory as in the target: 56 MB for a million files, and twice
// that in a warm pass that follows another one. A process that makes several passes also keeps 40 bytes for each directory. A device takes 32 bytes for each 4 MiB.
//
// # Two passes
//
// A warm pass copies a source that is being written to. What changes while it reads is let pass; what stood still is
// verified, and recorded in one file in the target's root. The final pass, over the quiet source, copies what differs,
// and neither copies nor reads again a file that is recorded and whose inodes on both sides look as they did. What can be
// recorded, and on which file systems, is said at beginWarm, isSettled and stamped. Of a big file only the blocks that differ are
// written. A warm pass also measures, see Figures, and can be held back, see Limiter. A record that is not there, not whole
// or not of this operation, kernel boot or pair of roots makes the final pass a whole one. Nothing else is different: a
// final pass proves what an ordinary copy proves, and says the same digest.
//
// # Devices
//
// CopyDevice makes one block device begin with what another one holds, and writes only what differs.
package mover
