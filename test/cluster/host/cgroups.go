package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroupMount is the mount point of the cgroup v2 hierarchy, or a folder with v1 hierarchies.
const cgroupMount = "/sys/fs/cgroup"

// hierarchies returns the roots of all cgroup hierarchies: one for cgroup v2, one per controller for v1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	var roots []string
	for _, entry := range entries {
		root := filepath.Join(cgroupMount, entry.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

// MakeCgroup creates the parent of the pods' cgroups, which the kubelet requires.
func MakeCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("making the pods' cgroup: %w", err)
		}
	}
	return nil
}

// RemoveCgroup kills the containers' processes in the cgroup tree, and removes the tree.
func RemoveCgroup(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	return untilNone(ctx, 10*time.Second, "cgroups of pods", func() (int, error) {
		left := 0
		for _, root := range roots {
			remaining, err := removeTree(filepath.Join(root, name))
			if err != nil {
				return 0, err
			}
			left += remaining
		}
		return left, nil
	})
}

// removeTree kills the processes of every cgroup in the tree and removes empty cgroups, the deepest first. It returns the number of
// remaining cgroups.
func removeTree(top string) (int, error) {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed after its parent was listed
		}
		if err == nil && entry.IsDir() {
			folders = append([]string{path}, folders...)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("listing the cgroups below %s: %w", top, err)
	}
	left := 0
	for _, folder := range folders {
		members, err := membersOf(folder)
		if err != nil {
			return 0, err
		}
		for _, pid := range members {
			if err := killMember(pid, folder); err != nil {
				return 0, err
			}
		}
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left++ // busy until its processes have ended
		}
	}
	return left, nil
}

// membersOf returns the processes of a cgroup. A removed cgroup has none.
func membersOf(cgroup string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the processes of %s: %w", cgroup, err)
	}
	var members []int
	for line := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			return nil, fmt.Errorf("reading the processes of %s: %w", cgroup, err)
		}
		members = append(members, pid)
	}
	return members, nil
}
