//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sort"
)

// Digest returns a SHA-256, in hex, over everything that Copy carries below dir. Two trees have the same digest exactly
// if they are copies of each other. It does not include the root directory's own attributes, lost+found in it, inode
// numbers, and access, change and birth times.
//
// A record is the SHA-256 of the following, in this order. Integers are 8 bytes, big endian. Byte strings have their
// length before them. The parts are: name; mode with the type bits, without permissions for a symbolic link; uid; gid;
// size of a regular file or a link's target, or device number, else 0; seconds and nanoseconds of mtime; link target;
// content; the number of extended attributes, and each one's name and value, sorted by name. Content is the hash of
// hashContents for a regular file. For a directory it is the SHA-256 of the records of its entries, sorted by name. For
// all others it is 32 zero bytes.
//
// The digest is the SHA-256 of "drydock-tree-2\n", the content of the root directory, the number of groups of hard
// linked names, and for each group, sorted by first path, the number of its paths and its paths, sorted.
//
// workers is as in Options. Any error is an *Error.
func Digest(ctx context.Context, path string, workers int) (string, error) {
	tuneCollector()
	r, err := openRoot(path, source)
	if err != nil {
		return "", toError(rootError(err), nil)
	}
	defer r.close()
	m := newMeter(nil, 0)
	defer m.close()
	var p problems
	t, err := scan(ctx, r, workerCount(workers), m, &p)
	if err == nil {
		err = p.err()
	}
	if err != nil {
		return "", toError(err, nil)
	}
	s := &treeHasher{tree: t, sides: []*root{r}, meter: m, problems: &p}
	if err := s.run(ctx, workerCount(workers)); err != nil {
		return "", toError(err, nil)
	}
	if err := p.err(); err != nil {
		return "", toError(err, nil)
	}
	return s.digest(source), nil
}

// digest returns the digest of one side after a run without problems.
func (s *treeHasher) digest(side side) string {
	h := sha256.New()
	h.Write([]byte("drydock-tree-2\n"))
	h.Write(s.content[side][:])
	groups := make([]*group, 0, len(s.tree.groups))
	for _, g := range s.tree.groups {
		groups = append(groups, g)
	}
	sort.Slice(groups, func(i, j int) bool { return groups[i].names[0].path() < groups[j].names[0].path() })
	writeInt(h, int64(len(groups)))
	for _, g := range groups {
		writeInt(h, int64(len(g.names)))
		for _, m := range g.names {
			writeString(h, m.path())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
