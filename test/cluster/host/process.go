// Package host is what the cluster does to this machine: processes, mounts, loop devices, cgroups, network links and
// packages. Everything is found by the cluster's folder, never by a list kept elsewhere, so that what a killed run
// left behind is found as well, and nothing is touched that this tool did not start.
package host

import (
	"bytes"
	"context"
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

// Every process is started with these in its environment. They are the proof that a process is ours: a number in a file
// may have gone to another process since.
const (
	dirVariable       = "DRYDOCK_CLUSTER_DIR"
	componentVariable = "DRYDOCK_CLUSTER_COMPONENT"
)

// Process is a running process that belongs to a cluster.
type Process struct {
	PID       int
	Component string
	Binary    string // what it runs; the helpers a component starts carry its name, but not its binary
}

// Start runs a program that outlives this one, with its output added to a log file. The caller learns of its end by
// looking for it again. The environment is this process's own, with env added.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no Ctrl-C from our terminal
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", component, err)
	}
	go func() { _ = cmd.Wait() }() // else it would stay as a zombie; why it ended is in its log
	return nil
}

// Processes finds the processes of the cluster in dir.
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

// Running says whether a component runs, from just this binary.
func Running(processes []Process, component, binary string) bool {
	return slices.ContainsFunc(processes, func(p Process) bool { return p.Component == component && p.Binary == binary })
}

// inspect reads whose process this is. One that is gone, a zombie or another user's cannot be read, and is not ours.
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

// componentOf reads the two variables from an environment as /proc shows it: NAME=value, each ended by a zero byte.
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

// KillAll ends every process of the cluster at once and waits until they are gone. New ones that a dying one has just
// started are found in the next round.
func KillAll(ctx context.Context, dir string) error {
	return untilNone(ctx, 10*time.Second, "processes of the cluster", func() (int, error) {
		processes, err := Processes(dir)
		for _, process := range processes {
			if err := killVerified(process.PID, dir); err != nil {
				return 0, fmt.Errorf("ending %s (process %d): %w", process.Component, process.PID, err)
			}
		}
		return len(processes), err
	})
}

// Kill ends the processes of one component that run another binary than this one.
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
				return 0, fmt.Errorf("ending %s (process %d): %w", component, process.PID, err)
			}
		}
		return left, err
	})
}

// IsShim tells the processes that keep containers running while containerd is restarted.
func IsShim(p Process) bool { return strings.HasPrefix(filepath.Base(p.Binary), "containerd-shim") }

// untilNone repeats a step until it counts nothing any more.
func untilNone(ctx context.Context, within time.Duration, what string, count func() (int, error)) error {
	deadline := time.Now().Add(within)
	for {
		left, err := count()
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d %s are still there after %s", left, what, within)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
