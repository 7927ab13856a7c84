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

// progress moves one bar a member: by what the movers print while they run, and by the record in the end.
type progress struct {
	screen *show.Screen
	mu     sync.Mutex
	bars   map[string]show.Bar
	done   map[string]api.MemberPhase // members of which the record knows more than the mover
}

func newProgress(screen *show.Screen) *progress {
	return &progress{screen: screen, bars: map[string]show.Bar{}, done: map[string]api.MemberPhase{}}
}

// read moves the member's bar by what a container of its mover prints, until the container ends. Progress that cannot be read is
// only not shown.
func (p *progress) read(ctx context.Context, c *cluster, pod *corev1.Pod, container, member string) {
	stream, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close() //nolint:errcheck // read only
	p.readLines(stream, member)
}

func (p *progress) readLines(lines io.Reader, member string) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var line moverreport.Progress
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Phase != "" && line.BytesTotal > 0 {
			p.move(member, show.Bar{Name: member, Note: passWords(line), Done: line.BytesDone, Total: line.BytesTotal})
		}
	}
}

// passWords says in which pass the mover does what.
func passWords(line moverreport.Progress) string {
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

// settle takes over what the record says of members that are copied.
func (p *progress) settle(record *api.Resize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, member := range record.Members {
		name := replica(member.Ordinal)
		switch member.Phase {
		case api.MemberSwapping, api.MemberStarting, api.MemberMoved:
		default:
			delete(p.done, name) // it may be copied again
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

// started reports whether the container of a mover has run, so that it has a log.
func started(pod *corev1.Pod, container string) bool {
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == container {
			return s.State.Running != nil || s.State.Terminated != nil
		}
	}
	return false
}
