package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"drydock.dev/shared/events"
)

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
