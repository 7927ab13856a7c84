package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// waitFor waits until check returns nil. It fails when the component has ended or the time is over. The error then includes the end of the
// component's log.
func waitFor(ctx context.Context, c config.Cluster, component config.Component, what string, within time.Duration,
	check func(context.Context) error,
) error {
	return step("waiting for "+what, func() error {
		deadline, missed := time.Now().Add(within), 0
		for {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			last := check(attempt)
			cancel()
			if last == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			processes, err := host.Processes(c.Dir())
			if err != nil {
				return err
			}
			if host.Running(processes, component.Name, component.Binary) {
				missed = 0
			} else if missed++; missed == maxMissed {
				return withLog(c, component.Name, fmt.Errorf("%s ended while waiting for %s", component.Name, what))
			}
			if time.Now().After(deadline) {
				return withLog(c, component.Name, fmt.Errorf("%s is not ready after %s: %w", what, within, last))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// maxMissed is the number of consecutive checks without the process that prove its end. During exec a process briefly has no environment,
// so that one check can miss it.
const maxMissed = 3

// withLog adds the end of a component's log to an error.
func withLog(c config.Cluster, component string, cause error) error {
	path := c.Log(component)
	return fmt.Errorf("%w\nthe log of %s is %s. Its last lines:\n%s", cause, component, path, tail(path, 15))
}

// tail returns the last lines of a file, at most 16 KiB.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (cannot read the log: " + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > 16<<10 {
		_, _ = file.Seek(-16<<10, io.SeekEnd) // on an error, read from the start
	}
	text, err := io.ReadAll(file)
	if err != nil && !errors.Is(err, io.EOF) {
		return "  (cannot read the log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
