package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTime is how long the process may take until it is ready. The lease of a killed process expires after 15 s.
	startTime = 45 * time.Second
	// stopTime is how long the process may take to exit.
	stopTime = 15 * time.Second
	// longestLine is the maximum length of a line of its output, in bytes.
	longestLine = 1 << 20
	// readyMessage is the log message of a process that is ready.
	readyMessage = "engine runs"
)

// child is the process that runs all of Drydock's functions.
type child struct {
	log    string // path of its log
	stop   context.CancelFunc
	exited chan struct{} // closed when the process has exited
	err    error         // its exit status; valid after exited is closed
	ready  chan struct{} // closed when it is ready

	mu    sync.Mutex
	lines []logLine
}

// logLine holds the fields of a log line that the demo uses.
type logLine struct {
	Message  string `json:"msg"`
	Function string `json:"function"`
	Plan     string `json:"plan"`
	Conflict string `json:"conflict"` // why package apply abandoned the plan; empty otherwise
}

// startChild starts the program, and calls onEvent for each event of its Broker.
func startChild(o options, folder string, onEvent func(brokerEvent)) (*child, error) {
	log, err := os.Create(filepath.Join(folder, "standalone.log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &child{log: log.Name(), stop: stop, exited: make(chan struct{}), ready: make(chan struct{})}
	command := exec.CommandContext(ctx, o.standalone,
		"--namespace="+o.namespace, "--events-log=-", "--listen=127.0.0.1:0", "--broker=", "--gateway=none", "--status-page=none")
	command.Env = append(os.Environ(), "DRYDOCK_IMAGE="+o.image, "DRYDOCK_ALLOW_TAGS=true")
	command.SysProcAttr = ownGroup()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTime
	command.Stdout = lineWriter(func(line []byte) {
		var p brokerEvent
		if json.Unmarshal(line, &p) == nil {
			onEvent(p)
		}
	})
	command.Stderr = io.MultiWriter(log, lineWriter(c.readLog))
	if err := c.run(command); err != nil {
		stop()
		return nil, fmt.Errorf("starting %s: %w; build it with: go build -o %[1]s ./cmd/drydock-standalone", o.standalone, err)
	}
	return c, nil
}

// run starts the process and waits for its exit in the background. Linux kills the process when its parent thread ends
// (Pdeathsig), so that it does not outlive a killed demo. Therefore the goroutine keeps its thread.
func (c *child) run(command *exec.Cmd) error {
	begun := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := command.Start()
		begun <- err
		if err == nil {
			c.err = command.Wait()
		}
		close(c.exited)
	}()
	return <-begun
}

func (c *child) readLog(text []byte) {
	var line logLine
	if json.Unmarshal(text, &line) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	if line.Message == readyMessage {
		close(c.ready)
	}
}

// awaitReady waits until the process is ready.
func (c *child) awaitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.exited:
		return c.exitError()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTime):
		return fmt.Errorf("drydock-standalone was not ready after %s. Check whether another one holds the lease, and read %s", startTime, c.log)
	}
}

// exitError returns the error for a process that exited by itself.
func (c *child) exitError() error {
	return fmt.Errorf("drydock-standalone exited early: %w", errors.Join(c.err, errors.New("see "+c.log)))
}

// end stops the process and returns its log.
func (c *child) end() []logLine {
	c.stop()
	<-c.exited
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

// lastLines returns the end of the log, with long lines cut.
func (c *child) lastLines() []string {
	const count, length = 12, 400
	text, err := os.ReadFile(c.log)
	if err != nil {
		return []string{err.Error()}
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	all = all[max(0, len(all)-count):]
	for i, line := range all {
		all[i] = strings.ToValidUTF8(line[:min(length, len(line))], "")
	}
	return all
}

// lineWriter returns a writer that calls the function for each line. Its goroutine runs until the program ends.
func lineWriter(call func(line []byte)) io.Writer {
	out, in := io.Pipe()
	go func() {
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, longestLine)
		for scanner.Scan() {
			call(scanner.Bytes())
		}
		_, _ = io.Copy(io.Discard, out) // an overlong line must not block the writer
	}()
	return in
}
