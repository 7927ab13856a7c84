package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/demo/show"
)

// progress shows one bar for each member. The movers' logs advance the bar during a copy; the record completes it.
type progress struct {
	screen *show.Screen
	mu     sync.Mutex
	bars   map[string]show.Bar
	done   map[string]api.MemberPhase // phases of copied members: for them the record is newer than the mover's log
}

func newProgress(screen *show.Screen) *progress {
	return &progress{screen: screen, bars: map[string]show.Bar{}, done: map[string]api.MemberPhase{}}
}

// read advances the member's bar from the log of a mover's container until the container ends. Unreadable progress is ignored:
// the bar then does not move.
func (p *progress) read(ctx context.Context, c *cluster, pod *corev1.Pod, container, member string) {
	stream, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close() // read only
	p.readLines(stream, member)
}

func (p *progress) readLines(lines io.Reader, member string) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var line moverreport.Progress
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Phase != "" && line.BytesTotal > 0 {
			p.move(member, show.Bar{Name: member, Note: passNote(line), Done: line.BytesDone, Total: line.BytesTotal})
		}
	}
}

// passNote returns the pass and the phase of the mover.
func passNote(line moverreport.Progress) string {
	if line.Pass > 0 {
		return fmt.Sprintf("pass %d: %s", line.Pass, line.Phase)
	}
	return fmt.Sprintf("final pass: %s", line.Phase)
}

func (p *progress) move(member string, bar show.Bar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[member] != "" {
		return
	}
	p.bars[member] = bar
	p.screen.Move(bar)
}

// applyRecord updates the bars of copied members from the record.
func (p *progress) applyRecord(record *api.Resize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, member := range record.Members {
		name := replica(member.Ordinal)
		switch member.Phase {
		case api.MemberSwapping, api.MemberStarting, api.MemberMoved:
		default:
			delete(p.done, name) // the member may be copied again
			continue
		}
		if p.done[name] == member.Phase {
			continue
		}
		p.done[name] = member.Phase
		total := p.bars[name].Total
		for _, move := range member.Claims {
			total = max(total, move.BytesTotal)
		}
		bar := show.Bar{Name: name, Note: strings.ToLower(string(member.Phase)), Done: total, Total: total}
		p.bars[name] = bar
		p.screen.Move(bar)
	}
}

// started reports whether a mover's container has run and therefore has a log.
func started(pod *corev1.Pod, container string) bool {
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == container {
			return s.State.Running != nil || s.State.Terminated != nil
		}
	}
	return false
}
