// Package build compiles the programs of the cluster and keeps them, named by what they were made from, so that the
// long compile of Kubernetes happens once.
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

// Program is something to compile: one program of a module's own, or several of the modules that it requires.
type Program struct {
	Name     string
	Module   string   // folder of the module
	Folder   string   // of the package, in the module
	Packages []string // instead of Folder, the import paths of several; go.mod decides their versions
	Flags    string   // for the linker
	Title    string   // for people who wait
}

// Builder keeps the programs in one folder.
type Builder struct {
	Bin  string
	Step func(what string, do func() error) error // shows progress
	Say  func(what string)
}

// Ensure returns the path of a program made from the present sources, compiling it where there is none. Of several it is
// the folder that holds them, each named like the last element of its package.
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
	lock, err := host.TakeLock(filepath.Join(b.Bin, ".lock"), func() { b.Say("waiting for another build to end") })
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if exists(path) {
		return path, nil // the other build made it
	}
	return path, b.Step("building "+p.Title, func() error { return b.compile(ctx, p, path, lock) })
}

// compile writes beside the final path first: a killed compile leaves no half program. The compiler holds the lock too,
// so it is not started a second time while one of a killed run still works.
func (b Builder) compile(ctx context.Context, p Program, path string, lock host.Lock) error {
	unfinished := filepath.Join(b.Bin, "."+p.Name)
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing what an ended build of %s left: %w", p.Title, err)
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
		return fmt.Errorf("keeping %s: %w", p.Title, err)
	}
	return nil
}

// patterns are what the go command is asked to build.
func (p Program) patterns() []string {
	if len(p.Packages) > 0 {
		return p.Packages
	}
	return []string{"./" + p.Folder}
}

// output ends with a slash where the go command shall make a folder of programs.
func (p Program) output(path string) string {
	if len(p.Packages) > 0 {
		return path + string(filepath.Separator)
	}
	return path
}

// removeOlder removes the builds from older sources. One that is running goes on.
func removeOlder(bin, name string) error {
	older, err := filepath.Glob(filepath.Join(bin, name+"-*"))
	if err != nil {
		return fmt.Errorf("listing older builds of %s: %w", name, err)
	}
	for _, path := range older {
		if strings.Contains(strings.TrimPrefix(filepath.Base(path), name+"-"), "-") {
			continue // of a program whose name begins with this one's
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
