package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"drydock.dev/shared/events"
	"drydock.dev/test/demo/show"
)

// passed is an event that passed the Broker, as drydock-standalone writes it with --events-log.
type passed struct {
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

// raw reports whether the event comes from the cluster's own changes or from sift, which are many.
func (p passed) raw() bool {
	return p.Type == events.ObjectChanged || strings.HasPrefix(p.Type, sourcePrefix)
}

// kind is the event's type, shortened.
func (p passed) kind() string {
	if p.Type == events.Tick {
		return "tick"
	}
	return strings.TrimPrefix(p.Type, ownPrefix)
}

// about is the object of the event: the resource and the name at the end of an API path.
func (p passed) about() string {
	parts := strings.Split(strings.Trim(p.Subject, "/"), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// sender is the function that sent the event.
func (p passed) sender() string { return p.From[strings.LastIndex(p.From, "/")+1:] }

// shortNames of resources, as kubectl has them.
var shortNames = map[string]string{
	"persistentvolumeclaims": "pvc", "persistentvolumes": "pv", "statefulsets": "sts", "pods": "pod", "jobs": "job",
}

// brief renders a raw event, which is one of many: what happened to a kind of object, or who was asked to look.
func (p passed) brief() string {
	if p.Type == events.ObjectChanged {
		return "look → " + strings.Join(strings.Fields(p.Concerns), ", ")
	}
	resource, _, _ := strings.Cut(p.about(), "/")
	if short := shortNames[resource]; short != "" {
		resource = short
	}
	return resource + " " + strings.TrimPrefix(p.Type, sourcePrefix)
}

// gatherTime is how long raw events are gathered for one line, unless something else happens.
const gatherTime = 250 * time.Millisecond

// gatherer makes one line of raw events that pass one right after the other.
type gatherer struct {
	mu    sync.Mutex
	first time.Time
	order []string
	count map[string]int
	tell  func(at time.Time, text string)
}

// add takes an event in.
func (g *gatherer) add(p passed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		g.first, g.count = p.Time, map[string]int{}
		time.AfterFunc(gatherTime, g.flush)
	}
	text := p.brief()
	if g.count[text] == 0 {
		g.order = append(g.order, text)
	}
	g.count[text]++
}

// flush tells what was gathered.
func (g *gatherer) flush() {
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
	g.tell(g.first, strings.Join(parts, " · "))
}

// onEvent shows an event that is about the scene, or a tick.
func (a *audience) onEvent(p passed) {
	ours := strings.Contains(p.Subject, "/namespaces/"+a.namespace+"/")
	switch {
	case p.raw() && ours:
		a.raw.add(p)
	case p.Type == events.Tick:
		a.tell(show.Dim, p.Time, "event", "tick")
	case ours:
		a.tell(show.Accent, p.Time, "event", "%-18s %s by %s", p.kind(), p.about(), p.sender())
	}
}
