package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/test/demo/show"
)

// Messages in the log of drydock-standalone.
const (
	doneMessage       = "done"               // package apply: a plan was applied
	deadLetterMessage = "event was given up" // function dead-letter
)

// write is one write to the API server.
type write struct {
	function string
	reason   string
	action   string
}

// writesOf returns the operation's writes from the log, in order. It omits volumes of other operations, which a sweep may have
// touched in between. If a plan met a conflict, the actions before the conflict count.
func writesOf(lines []logLine, status *api.Resize) []write {
	var writes []write
	names := aliases(status)
	for _, line := range lines {
		if line.Message != doneMessage && line.Conflict == "" {
			continue
		}
		reason, actions := readPlan(line.Plan)
		for _, action := range actions {
			if line.Conflict != "" && strings.HasPrefix(line.Conflict, action) {
				break
			}
			if !foreignVolume(action, status) {
				writes = append(writes, write{line.Function, reason, names.Replace(action)})
			}
		}
	}
	return writes
}

// incidents counts the conflicts and the dead-lettered events. The text is empty if there were none.
func incidents(lines []logLine) string {
	conflicts := 0
	for _, line := range lines {
		if line.Conflict != "" {
			conflicts++
		}
	}
	var parts []string
	if conflicts > 0 {
		parts = append(parts, fmt.Sprintf("plans decided again after a conflict: %d", conflicts))
	}
	if n := countDeadLettered(lines); n > 0 {
		parts = append(parts, fmt.Sprintf("dead-lettered events: %d", n))
	}
	return strings.Join(parts, ", ")
}

// aliases replaces names that differ in each run.
func aliases(status *api.Resize) *strings.Replacer {
	var pairs []string
	for _, move := range status.Moves() {
		pairs = append(pairs, move.OldVolume, "OLD("+move.Claim+")", status.TargetOf(move), "TARGET("+move.Claim+")")
		if move.NewVolume != "" {
			pairs = append(pairs, move.NewVolume, "NEW("+move.Claim+")")
		}
	}
	for _, m := range status.Members {
		for attempt := range m.Attempt {
			pairs = append(pairs, api.MoverName(status.Operation, m.Ordinal, attempt+1), fmt.Sprintf("MOVER(%d)", m.Ordinal))
		}
	}
	return strings.NewReplacer(append(pairs, api.JournalName(status.Operation), "JOURNAL", status.Operation, "OPERATION")...)
}

func foreignVolume(action string, status *api.Resize) bool {
	fields := strings.Fields(action)
	if len(fields) < 3 || fields[1] != string(plan.Volumes) {
		return false
	}
	for _, move := range status.Moves() {
		if fields[2] == move.OldVolume || fields[2] == move.NewVolume {
			return false
		}
	}
	return true
}

// readPlan parses the text of a plan: "do Reason: action; action -> announcement".
func readPlan(text string) (reason string, actions []string) {
	head, rest, _ := strings.Cut(text, ": ")
	fields := strings.Fields(head)
	if len(fields) < 2 || fields[0] != string(plan.KindDo) {
		return "", nil
	}
	for _, part := range splitUnquoted(rest, ';') {
		if i := strings.LastIndex(part, " -> "); i >= 0 && !strings.Contains(part[i:], `"`) {
			part = part[:i]
		}
		actions = append(actions, strings.TrimSpace(part))
	}
	return fields[1], actions
}

// splitUnquoted splits the text at the character, except within double quotes.
func splitUnquoted(text string, at rune) []string {
	var parts []string
	begin, quoted, escaped := 0, false, false
	for i, c := range text {
		switch {
		case escaped:
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// numbered formats the list for the reader.
func numbered(writes []write) []string {
	lines := make([]string, 0, len(writes))
	for i, w := range writes {
		lines = append(lines, fmt.Sprintf("%3d  %-13s  %-15s  %s", i+1, w.function, w.reason, w.action))
	}
	return lines
}

// countDeadLettered counts the events that went to the dead-letter sink.
func countDeadLettered(lines []logLine) int {
	n := 0
	for _, line := range lines {
		if line.Message == deadLetterMessage {
			n++
		}
	}
	return n
}

// calls counts the client's calls during the resize.
type calls struct {
	screen *show.Screen
	fail   func(n int64) // called when n calls of a batch of 25 failed

	mu               sync.Mutex
	answered, failed int64
}

// read counts the calls that the client logs from now on, until the context ends.
func (c *calls) read(ctx context.Context, cluster *cluster, namespace string) error {
	stream, err := cluster.CoreV1().Pods(namespace).GetLogs(clientName, &corev1.PodLogOptions{Follow: true,
		SinceSeconds: ptr.To[int64](1)}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the client's log: %w", err)
	}
	go func() {
		defer stream.Close() // read only
		c.readLines(stream)
	}()
	return nil
}

func (c *calls) readLines(lines io.Reader) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var answered, failed int64
		if n, err := fmt.Sscan(scanner.Text(), &answered, &failed); n == 2 && err == nil {
			c.add(answered, failed)
		}
	}
}

func (c *calls) add(answered, failed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered, c.failed = c.answered+answered, c.failed+failed
	c.screen.Move(show.Bar{Name: clientName, Done: c.answered, Total: c.answered + c.failed, Amount: fmt.Sprintf("%d calls",
		c.answered+c.failed),
		Note: fmt.Sprintf("answered, %d failed", c.failed)})
	if failed > 0 {
		c.fail(failed)
	}
}

// counts returns the numbers of answered and of failed calls.
func (c *calls) counts() (answered, failed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.failed
}

// onFailedCalls prints the failed calls among the events.
func (o *observer) onFailedCalls(n int64) {
	o.report(show.Bad, time.Now(), "call", "%d calls of the client failed", n)
}

// brokerEvent is an event of the Broker, in the format of drydock-standalone's --events-log.
type brokerEvent struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Subject  string    `json:"subject"`
	Concerns string    `json:"concerns"`
	From     string    `json:"from"`
}

const (
	sourcePrefix = "dev.knative.apiserver.resource."
	ownPrefix    = "dev.drydock."
)

// isRaw reports whether the event comes from a change of an object or from sift. There are many of these.
func (p brokerEvent) isRaw() bool {
	return p.Type == events.ObjectChanged || strings.HasPrefix(p.Type, sourcePrefix)
}

// kind returns the event's type without its prefix.
func (p brokerEvent) kind() string {
	if p.Type == events.Tick {
		return "tick"
	}
	return strings.TrimPrefix(p.Type, ownPrefix)
}

// object returns the resource and the name of the event's object, from the end of the API path.
func (p brokerEvent) object() string {
	parts := strings.Split(strings.Trim(p.Subject, "/"), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// sender returns the name of the function that sent the event.
func (p brokerEvent) sender() string { return p.From[strings.LastIndex(p.From, "/")+1:] }

// shortNames holds kubectl's short names of resources.
var shortNames = map[string]string{
	"persistentvolumeclaims": "pvc", "persistentvolumes": "pv", "statefulsets": "sts", "pods": "pod", "jobs": "job",
}

// summary returns a short text for a raw event: the changed kind of object, or the functions that sift notified.
func (p brokerEvent) summary() string {
	if p.Type == events.ObjectChanged {
		return "notify → " + strings.Join(strings.Fields(p.Concerns), ", ")
	}
	resource, _, _ := strings.Cut(p.object(), "/")
	if short := shortNames[resource]; short != "" {
		resource = short
	}
	return resource + " " + strings.TrimPrefix(p.Type, sourcePrefix)
}

// batchTime is how long raw events are collected into one line, unless another line comes first.
const batchTime = 250 * time.Millisecond

// eventBatch collects consecutive raw events into one line.
type eventBatch struct {
	mu    sync.Mutex
	first time.Time
	order []string
	count map[string]int
	print func(at time.Time, text string)
}

// add adds an event to the line.
func (g *eventBatch) add(p brokerEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		g.first, g.count = p.Time, map[string]int{}
		time.AfterFunc(batchTime, g.flush)
	}
	text := p.summary()
	if g.count[text] == 0 {
		g.order = append(g.order, text)
	}
	g.count[text]++
}

// flush prints the collected line.
func (g *eventBatch) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		return
	}
	parts := make([]string, len(g.order))
	for i, text := range g.order {
		parts[i] = text
		if n := g.count[text]; n > 1 {
			parts[i] = fmt.Sprintf("%s ×%d", text, n)
		}
	}
	g.order = nil
	g.print(g.first, strings.Join(parts, " · "))
}
