// Package host makes the cluster's changes to this machine: processes, mounts, loop devices, cgroups, network links and packages. It finds
// its own resources by the cluster's folder, not by a stored list. Therefore it also finds the remains of a killed run, and touches nothing
// that this tool did not start.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Every process is started with these variables. They prove that a process belongs to a cluster. A stored process id would not: the system
// may have reused the number.
const (
	dirVariable       = "DRYDOCK_CLUSTER_DIR"
	componentVariable = "DRYDOCK_CLUSTER_COMPONENT"
)

// Process is a running process that belongs to a cluster.
type Process struct {
	PID       int
	Component string
	Binary    string // its executable; helpers of a component have the same name but another binary
}

// Start starts a program that continues after this process ends, and appends its output to a log file. Its environment is this process's
// environment plus env. The caller detects its end with Processes.
func Start(dir, component, binary string, args, env []string, log string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", component, err)
	}
	defer output.Close()
	cmd := exec.Command(binary)
	cmd.Args = append([]string{component}, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), env...), dirVariable+"="+dir, componentVariable+"="+component)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // protect it from Ctrl-C in the terminal
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	go func() { _ = cmd.Wait() }() // avoid a zombie; the log has the reason for its end
	return nil
}

// Processes returns the processes of the cluster in dir.
func Processes(dir string) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if process, ours := inspect(pid, dir); ours {
			found = append(found, process)
		}
	}
	return found, nil
}

// Running reports whether a component runs with exactly this binary.
func Running(processes []Process, component, binary string) bool {
	return slices.ContainsFunc(processes, func(p Process) bool { return p.Component == component && p.Binary == binary })
}

// inspect returns the process if it belongs to the cluster. An ended process, a zombie or another user's process cannot be read, and does
// not belong to it.
func inspect(pid int, dir string) (Process, bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	environment, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil {
		return Process{}, false
	}
	component, ours := componentOf(environment, dir)
	if !ours {
		return Process{}, false
	}
	binary, err := os.Readlink(filepath.Join(folder, "exe"))
	if err != nil {
		return Process{}, false
	}
	return Process{PID: pid, Component: component, Binary: binary}, true
}

// componentOf reads the two variables from the format of /proc: NAME=value, each followed by a zero byte.
func componentOf(environment []byte, dir string) (component string, ours bool) {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		name, value, _ := strings.Cut(string(variable), "=")
		switch name {
		case dirVariable:
			ours = value == dir
		case componentVariable:
			component = value
		}
	}
	return component, ours && component != ""
}

// KillAll kills every process of the cluster and waits for their end. It repeats the search, because an ending process may just have
// started another one.
func KillAll(ctx context.Context, dir string) error {
	return untilNone(ctx, time.Minute, "processes of the cluster", func() (int, error) {
		processes, err := Processes(dir)
		for _, process := range processes {
			if err := killVerified(process.PID, dir); err != nil {
				return 0, fmt.Errorf("killing %s (process %d): %w", process.Component, process.PID, err)
			}
		}
		return len(processes), err
	})
}

// Kill kills the processes of a component whose binary differs from exceptBinary.
func Kill(ctx context.Context, dir, component, exceptBinary string) error {
	return untilNone(ctx, 10*time.Second, "older processes of "+component, func() (int, error) {
		processes, err := Processes(dir)
		left := 0
		for _, process := range processes {
			older := process.Component == component && process.Binary != exceptBinary && !IsShim(process)
			if !older {
				continue
			}
			left++
			if err := killVerified(process.PID, dir); err != nil {
				return 0, fmt.Errorf("killing %s (process %d): %w", component, process.PID, err)
			}
		}
		return left, err
	})
}

// IsShim reports whether the process is a shim, which keeps containers running during a restart of containerd.
func IsShim(p Process) bool { return strings.HasPrefix(filepath.Base(p.Binary), "containerd-shim") }

// untilNone repeats the step until its count is zero.
func untilNone(ctx context.Context, within time.Duration, what string, count func() (int, error)) error {
	deadline := time.Now().Add(within)
	for {
		left, err := count()
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d %s still exist after %s", left, what, within)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

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
