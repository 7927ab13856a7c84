// Package build compiles the programs of the cluster and caches them by a digest of their sources. Therefore the long compile of Kubernetes
// happens only once.
package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"drydock.dev/test/cluster/host"
)

// Program is a compile job: one program of the module itself, or several programs of its required modules.
type Program struct {
	Name     string
	Module   string   // folder of the module
	Folder   string   // folder of the package, within the module
	Packages []string // import paths of several programs, instead of Folder; go.mod sets their versions
	Flags    string   // linker flags
	Title    string   // for progress messages
}

// Builder stores the programs in one folder.
type Builder struct {
	Bin  string
	Step func(what string, do func() error) error // shows progress
	Say  func(what string)
}

// Ensure returns the path of the program for the present sources, and compiles it if needed. For several programs it returns their folder.
// Each file has the name of the last element of its package.
func (b Builder) Ensure(ctx context.Context, p Program) (string, error) {
	stamp, err := p.stamp()
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Bin, p.Name+"-"+stamp)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(b.Bin, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of programs: %w", err)
	}
	lock, err := host.TakeLock(filepath.Join(b.Bin, ".lock"), func() { b.Say("waiting for another build") })
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if exists(path) {
		return path, nil // made by the other build
	}
	return path, b.Step("building "+p.Title, func() error { return b.compile(ctx, p, path, lock) })
}

// compile writes to a temporary path first, so that a killed compile leaves no incomplete program. The go command inherits the lock, so
// that no second compile starts while that of a killed run continues.
func (b Builder) compile(ctx context.Context, p Program, path string, lock host.Lock) error {
	unfinished := filepath.Join(b.Bin, "."+p.Name)
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing the remains of an earlier build of %s: %w", p.Title, err)
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + p.Flags, "-o", p.output(unfinished)}
	cmd := exec.CommandContext(ctx, "go", append(args, p.patterns()...)...)
	cmd.Dir = p.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.ExtraFiles = []*os.File{lock.File()}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.Title, err, lastLines(string(output), 20))
	}
	if err := removeOlder(b.Bin, p.Name); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return fmt.Errorf("storing %s: %w", p.Title, err)
	}
	return nil
}

// patterns returns the packages for the go command.
func (p Program) patterns() []string {
	if len(p.Packages) > 0 {
		return p.Packages
	}
	return []string{"./" + p.Folder}
}

// output returns the value of -o. A trailing slash makes the go command create a folder of programs.
func (p Program) output(path string) string {
	if len(p.Packages) > 0 {
		return path + string(filepath.Separator)
	}
	return path
}

// removeOlder removes the builds of older sources. A running program is not affected.
func removeOlder(bin, name string) error {
	older, err := filepath.Glob(filepath.Join(bin, name+"-*"))
	if err != nil {
		return fmt.Errorf("listing older builds of %s: %w", name, err)
	}
	for _, path := range older {
		if strings.Contains(strings.TrimPrefix(filepath.Base(path), name+"-"), "-") {
			continue // another program, whose name begins with the same text
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing an older build: %w", err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
