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
	// startTime is how long the process may take to be at work. Another one that was killed holds the lease for 15 s.
	startTime = 45 * time.Second
	// stopTime is how long it may take to end.
	stopTime = 15 * time.Second
	// longestLine is the longest line of its output that is read.
	longestLine = 1 << 20
	// workingMessage is what it logs when it is at work.
	workingMessage = "engine runs"
)

// child is the process that runs all of Drydock's functions.
type child struct {
	log     string // the file with what it logs
	stop    context.CancelFunc
	ended   chan struct{} // closed when the process has ended
	err     error         // how it ended; to be read after that
	working chan struct{} // closed when it is at work

	mu    sync.Mutex
	lines []logLine
}

// logLine is what is read of a line of its log.
type logLine struct {
	Message  string `json:"msg"`
	Function string `json:"function"`
	Plan     string `json:"plan"`
	Conflict string `json:"conflict"`
}

// startChild runs the program, and calls onEvent for each event that passes its Broker.
func startChild(o options, folder string, onEvent func(passed)) (*child, error) {
	log, err := os.Create(filepath.Join(folder, "standalone.log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &child{log: log.Name(), stop: stop, ended: make(chan struct{}), working: make(chan struct{})}
	command := exec.CommandContext(ctx, o.standalone,
		"--namespace="+o.namespace, "--events-log=-", "--listen=127.0.0.1:0", "--broker=", "--gateway=none")
	command.Env = append(os.Environ(), "DRYDOCK_IMAGE="+o.image, "DRYDOCK_ALLOW_TAGS=true")
	command.SysProcAttr = ownGroup()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTime
	command.Stdout = lines(func(line []byte) {
		var p passed
		if json.Unmarshal(line, &p) == nil {
			onEvent(p)
		}
	})
	command.Stderr = io.MultiWriter(log, lines(c.readLog))
	if err := c.run(command); err != nil {
		stop()
		return nil, fmt.Errorf("starting %s: %w; build it with: go build -o %[1]s ./cmd/drydock-standalone", o.standalone, err)
	}
	return c, nil
}

// run starts the process and waits for its end in the background. The system ends the process with the thread that
// started it, so that none outlives a killed demo; so that thread stays.
func (c *child) run(command *exec.Cmd) error {
	begun := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := command.Start()
		begun <- err
		if err == nil {
			c.err = command.Wait()
		}
		close(c.ended)
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
	if line.Message == workingMessage {
		close(c.working)
	}
}

// awaitWork returns when the process is at work.
func (c *child) awaitWork(ctx context.Context) error {
	select {
	case <-c.working:
		return nil
	case <-c.ended:
		return c.death()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTime):
		return fmt.Errorf("drydock-standalone was not at work after %s; does another one hold the lease? See %s", startTime, c.log)
	}
}

// death says that the process ended by itself.
func (c *child) death() error {
	return fmt.Errorf("drydock-standalone ended too early: %w", errors.Join(c.err, errors.New("see "+c.log)))
}

// end stops the process and returns its log.
func (c *child) end() []logLine {
	c.stop()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

// lastLines is the end of the log, each line cut to a length that can be read.
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

// lines calls for each line that is written. Its reader lives as long as the program.
func lines(call func(line []byte)) io.Writer {
	out, in := io.Pipe()
	go func() {
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, longestLine)
		for scanner.Scan() {
			call(scanner.Bytes())
		}
		_, _ = io.Copy(io.Discard, out) // a line too long must not stop who writes
	}()
	return in
}
