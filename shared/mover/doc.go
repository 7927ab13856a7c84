// Package mover copies the tree of one mounted volume to another so that nothing can tell the two apart, and proves it.
//
//	scan    walk the source once; every entry's stat is kept and is the statement of what is being copied
//	copy    delete what the source does not have, make directories, copy files, link, then set directories' attributes
//	sync    syncfs on the target: the only flush, and its error counts
//	verify  read both sides again, the target from its device, and compare contents and attributes
//
// # What is carried
//
// Regular files with their holes, directories, symbolic links, hard links, fifos, sockets, device nodes; owner, group,
// mode with set-id and sticky bits, modification time to the nanosecond; extended attributes of the namespaces user,
// trusted (seen only with CAP_SYS_ADMIN) and security (without security.selinux, which the platform sets), and POSIX ACLs.
// Attributes of other namespaces, inode flags (chattr), access and birth times belong to a file system and stay there.
// lost+found in either root is left alone. A directory on which something else is mounted is made, empty, with a warning.
//
// # Crash safety
//
// A file gets its name only after its contents and attributes are complete (temporary name, then rename). A run that
// was killed is resumed by running it again: leftover temporary files are, like all names the source does not have,
// deleted, and files that are equal in size, mtime, mode, owner and extended attributes are not copied again.
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
// The scan keeps 80 bytes and the name for each entry, and 64 bytes more for each directory: about 110 MB for a million
// files. Verification adds 64 bytes for each entry of the directories being read. Each worker has a buffer of 128 KiB.
//
// # Later
//
// A first pass over a live source needs only that problems of kind changed are let pass and verification is left out.
package mover
