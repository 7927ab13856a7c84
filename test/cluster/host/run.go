package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Run runs a command and returns its standard output. The error includes its error output.
func Run(ctx context.Context, name string, args ...string) (string, error) {
	return RunWithInput(ctx, nil, name, args...)
}

// RunWithInput is Run with standard input.
func RunWithInput(ctx context.Context, input []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(input)
	var output, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &failure
	if err := cmd.Run(); err != nil {
		message := strings.TrimSpace(failure.String())
		if message == "" {
			message = strings.TrimSpace(output.String())
		}
		return output.String(), fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, message)
	}
	return output.String(), nil
}

// Lock is held by one run at a time. The kernel releases it when the last process with the open file ends.
type Lock struct{ file *os.File }

// TakeLock waits for the lock. It calls waiting if the lock is held.
func TakeLock(path string, waiting func()) (Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return Lock{}, fmt.Errorf("opening the lock %s: %w", path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		waiting()
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		_ = file.Close() // never locked
		return Lock{}, fmt.Errorf("taking the lock %s: %w", path, err)
	}
	return Lock{file}, nil
}

// File returns the lock's file. A child process that inherits it holds the lock until the child ends.
func (l Lock) File() *os.File { return l.file }

// Release frees the lock.
func (l Lock) Release() { _ = l.file.Close() } // nothing was written to it
