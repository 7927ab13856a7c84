//go:build cluster

package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drydock.dev/test/kit/stage"
)

// process keeps drydock-standalone running, like a Deployment, and measures it.
type process struct {
	t       *testing.T
	stage   *stage.Stage
	journal *Journal
	address string // of its metrics
	log     *os.File

	mu      sync.Mutex
	command *exec.Cmd
	started time.Time
	logged  int64      // size of the log when the present life began
	samples [][]Sample // of each life
	// killed is true if the present life ends by the test. ended says that no life follows.
	killed, ended bool
	exits         []string
	done          chan struct{}
}

// settings make operations short. Old volumes have to be deleted within the run. So few movers make resizes wait for their turn.
var settings = []string{"DRYDOCK_RETENTION=45s", "DRYDOCK_RETAINED_VOLUMES=0", "DRYDOCK_SLEEP_RETRY=20s", "DRYDOCK_CLEANUP_BACKOFF=1s",
	"DRYDOCK_MOVERS=6"}

// startProcess starts drydock-standalone, with its log in the folder. It ends with the test, or by end.
func startProcess(t *testing.T, s *stage.Stage, folder string, journal *Journal) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(folder, "drydock-standalone.log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, stage: s, journal: journal, address: stage.FreeAddress(t), log: log, done: make(chan struct{})}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	go p.supervise()
	go p.measure()
	t.Cleanup(func() { p.end(); _ = log.Close() })
	return p
}

func (p *process) start() error {
	log, err := p.log.Stat()
	if err != nil {
		return err
	}
	p.logged = log.Size()
	command := p.stage.Command(p.t, settings, "--tick", "5s", "--listen", p.address)
	command.Stdout, command.Stderr = p.log, p.log
	if err := command.Start(); err != nil {
		return err
	}
	p.command, p.started, p.killed = command, time.Now(), false
	p.samples = append(p.samples, nil)
	return nil
}

// supervise starts the process again whenever it has ended.
func (p *process) supervise() {
	defer close(p.done)
	for {
		err := p.present().Wait()
		p.mu.Lock()
		if p.ended {
			p.mu.Unlock()
			return
		}
		if !p.killed {
			p.noteEnd(err)
		}
		p.mu.Unlock()
		<-time.After(restartDelay)
		p.mu.Lock()
		err = p.start()
		p.mu.Unlock()
		if err != nil {
			p.mu.Lock()
			p.exits = append(p.exits, fmt.Sprintf("drydock-standalone cannot start: %v", err))
			p.mu.Unlock()
			return
		}
	}
}

// noteEnd records that the process has ended by itself. It may do so only if it has lost its lease, because the API server was away.
func (p *process) noteEnd(err error) {
	text, readErr := os.ReadFile(p.log.Name())
	if readErr == nil && strings.Contains(string(text[p.logged:]), "the lease was lost") {
		p.journal.Say("drydock-standalone has lost its lease, and ends")
		return
	}
	p.exits = append(p.exits, fmt.Sprintf("drydock-standalone ended by itself at %s: %v", time.Now().UTC().Format(time.TimeOnly), err))
	p.journal.Say("drydock-standalone ended by itself: %v", err)
}

// restartDelay is the time that a service manager waits before it starts a process again.
const restartDelay = 500 * time.Millisecond

func (p *process) present() *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.command
}

// crash kills the process. Another one follows.
func (p *process) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	_ = p.command.Process.Kill()
}

// end stops the process for good.
func (p *process) end() {
	p.mu.Lock()
	p.ended = true
	_ = p.command.Process.Signal(syscall.SIGTERM)
	p.mu.Unlock()
	<-p.done
}

// measure takes a sample every five seconds until the process ends for good.
func (p *process) measure() {
	for ticks := time.NewTicker(5 * time.Second); ; {
		select {
		case <-p.done:
			ticks.Stop()
			return
		case <-ticks.C:
		}
		p.mu.Lock()
		life, pid, age := len(p.samples)-1, p.command.Process.Pid, time.Since(p.started)
		p.mu.Unlock()
		sample, err := takeSample(p.address, pid)
		if err != nil {
			continue // it is being killed or starts
		}
		sample.Age = age
		p.mu.Lock()
		if life == len(p.samples)-1 {
			p.samples[life] = append(p.samples[life], sample)
		}
		p.mu.Unlock()
	}
}

func takeSample(address string, pid int) (Sample, error) {
	page, err := stage.MetricsPage(address)
	if err != nil {
		return Sample{}, err
	}
	var s Sample
	if s.Goroutines, err = stage.SumOf(page, "go_goroutine_count", ""); err != nil {
		return s, err
	}
	if s.Heap, err = stage.SumOf(page, "go_memory_used_bytes", ""); err != nil {
		return s, err
	}
	if s.Goroutines == 0 || s.Heap == 0 {
		return s, fmt.Errorf("the metrics page has no figures of Go's runtime")
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return s, err
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	s.Resident = pages * float64(os.Getpagesize())
	return s, err
}

// longestLife returns the samples of the longest life.
func (p *process) longestLife() []Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest []Sample
	for _, samples := range p.samples {
		if len(samples) > len(longest) {
			longest = samples
		}
	}
	return longest
}

// dumpGoroutines ends the process for good. It then writes the stacks of all goroutines into its log.
func (p *process) dumpGoroutines() {
	p.mu.Lock()
	p.ended = true
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	p.mu.Unlock()
	<-p.done
}

// lives returns how often the process was started.
func (p *process) lives() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.samples)
}

// panics returns the panics in the log.
func (p *process) panics() []string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, `"panic"`) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
