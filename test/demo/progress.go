package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/demo/show"
)

// progress moves one bar a claim: by what the movers print while they run, and by the status in the end.
type progress struct {
	screen *show.Screen
	mu     sync.Mutex
	bars   map[string]show.Bar
	done   map[string]api.ClaimPhase // claims of which the status knows more than the mover
}

func newProgress(screen *show.Screen) *progress {
	return &progress{screen: screen, bars: map[string]show.Bar{}, done: map[string]api.ClaimPhase{}}
}

// moverLine is a line that a mover prints while it runs; see shared/mover.
type moverLine struct {
	Phase      string `json:"phase"`
	BytesDone  int64  `json:"bytesDone"`
	BytesTotal int64  `json:"bytesTotal"`
}

// read moves the claim's bar by what the mover's pod prints, until the pod is done. Progress that cannot be read is
// only not shown.
func (p *progress) read(ctx context.Context, c *cluster, pod *corev1.Pod, claim string) {
	stream, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
		&corev1.PodLogOptions{Container: resources.MoverContainer, Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close() //nolint:errcheck // read only
	p.readLines(stream, claim)
}

func (p *progress) readLines(lines io.Reader, claim string) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var line moverLine
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Phase != "" {
			p.move(claim, show.Bar{Name: claim, Note: line.Phase, Done: line.BytesDone, Total: line.BytesTotal})
		}
	}
}

func (p *progress) move(claim string, bar show.Bar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[claim] != "" {
		return
	}
	p.bars[claim] = bar
	p.screen.Move(bar)
}

// settle takes over what the status says of the claims that are verified.
func (p *progress) settle(status *api.Resize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, claim := range status.Claims {
		if claim.Phase != api.ClaimVerified && claim.Phase != api.ClaimSwitched {
			delete(p.done, claim.Name) // it may be copied again
			continue
		}
		if p.done[claim.Name] == claim.Phase {
			continue
		}
		p.done[claim.Name] = claim.Phase
		total := max(claim.BytesTotal, p.bars[claim.Name].Total)
		bar := show.Bar{Name: claim.Name, Note: strings.ToLower(string(claim.Phase)), Done: total, Total: total}
		p.bars[claim.Name] = bar
		p.screen.Move(bar)
	}
}

// started reports whether the mover's container has run, so that it has a log.
func started(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == resources.MoverContainer {
			return s.State.Running != nil || s.State.Terminated != nil
		}
	}
	return false
}
