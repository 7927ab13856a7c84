package statuspage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	// pause is the time between two reads of the API server, and how long a fragment counts as new.
	pause = 2 * time.Second
	// patience is how long a read may last before the pages say that they are not up to date.
	patience = 10 * time.Second
	// heartbeat is the longest time without a write to a viewer. Only a write shows that the browser has disconnected, and only a heartbeat
	// shows the browser that the connection still exists.
	heartbeat = 15 * time.Second
)

// fragment is the part of a page that changes: the content of its main element.
type fragment struct {
	html  []byte
	title string // of the document
	said  string // one sentence, which a screen reader says after a change
}

func (f fragment) equal(other fragment) bool {
	return bytes.Equal(f.html, other.html) && f.title == other.title && f.said == other.said
}

// update is the result of one read: a fragment, or why there is none.
type update struct {
	fragment fragment
	problem  string
}

func (u update) equal(other update) bool {
	return u.problem == other.problem && u.fragment.equal(other.fragment)
}

// refresher reads the views and returns an update for each.
type refresher func(context.Context, []view) map[view]update

// live keeps the views up to date that browsers show at the moment. One loop reads for all of them. It ends with the last viewer.
type live struct {
	refresh   refresher
	log       *slog.Logger
	limit     int
	pause     time.Duration
	heartbeat time.Duration
	ending    context.Context
	stop      context.CancelFunc

	mu      sync.Mutex
	viewers int
	topics  map[view]*topic
	running bool
}

// topic is a view with its viewers and its latest update.
type topic struct {
	viewers int
	latest  *update // nil before the first read
	at      time.Time
	changed chan struct{} // closed at the next change
}

func newLive(limit int, refresh refresher, log *slog.Logger) *live {
	ending, stop := context.WithCancel(context.Background())
	return &live{refresh: refresh, log: log, limit: limit, pause: pause, heartbeat: heartbeat, ending: ending, stop: stop,
		topics: map[view]*topic{}}
}

// join adds a viewer and starts the loop if it is the first. It returns false if there are too many viewers.
func (l *live) join(v view) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.viewers >= l.limit {
		return false
	}
	l.viewers++
	t := l.topics[v]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		l.topics[v] = t
	}
	t.viewers++
	if !l.running {
		l.running = true
		go l.run()
	}
	return true
}

// leave removes a viewer. The fragment of a view without viewers is dropped.
func (l *live) leave(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewers--
	t := l.topics[v]
	t.viewers--
	if t.viewers == 0 {
		delete(l.topics, v)
	}
}

// run reads all views again and again, until there are no viewers.
func (l *live) run() {
	for {
		views := l.current()
		if len(views) == 0 {
			return
		}
		late := time.AfterFunc(patience, l.publishDelay)
		updates := l.guarded(views)
		late.Stop()
		for v, u := range updates {
			l.publish(v, u)
		}
		select {
		case <-l.ending.Done():
		case <-time.After(l.pause):
		}
	}
}

// guarded refreshes the views. It turns a panic into a problem, because a panic outside of a request would end the process.
func (l *live) guarded(views []view) (updates map[view]update) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("refreshing the status page panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			updates = map[view]update{}
			for _, v := range views {
				updates[v] = update{problem: "the page cannot be rendered. The log of the status page says why"}
			}
		}
	}()
	return l.refresh(l.ending, views)
}

// publishDelay tells all viewers that the present read takes long. Its end is a change again.
func (l *live) publishDelay() {
	l.mu.Lock()
	views := slices.Collect(maps.Keys(l.topics))
	l.mu.Unlock()
	for _, v := range views {
		l.publish(v, update{problem: "the API server answers slowly"})
	}
}

// current returns the views with viewers. If there are none, or the page stops, the loop counts as ended.
func (l *live) current() []view {
	l.mu.Lock()
	defer l.mu.Unlock()
	var views []view
	if l.ending.Err() == nil {
		for v := range l.topics {
			views = append(views, v)
		}
	}
	l.running = len(views) > 0
	return views
}

// publish stores the update, and wakes the viewers if it differs. With a problem, the former fragment stays.
func (l *live) publish(v view, u update) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[v]
	if t == nil {
		return // the last viewer has left meanwhile
	}
	if u.problem != "" && t.latest != nil {
		u.fragment = t.latest.fragment
	}
	t.at = time.Now()
	if t.latest != nil && t.latest.equal(u) {
		return
	}
	t.latest = &u
	close(t.changed)
	t.changed = make(chan struct{})
}

// state returns the latest update of a view with viewers, nil before the first, and a channel that is closed at the next.
func (l *live) state(v view) (*update, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[v]
	return t.latest, t.changed
}

// latest returns the latest fragment of the view. fresh is false if no browser shows the view, or if it could not be read lately.
func (l *live) latest(v view) (f fragment, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[v]
	if t == nil || t.latest == nil || t.latest.problem != "" || time.Since(t.at) > 2*l.pause {
		return fragment{}, false
	}
	return t.latest.fragment, true
}

const (
	// longestStream limits one stream. The browser then connects again and shows its token again.
	longestStream = 5 * time.Minute
	// writeTimeout limits one write, so that a browser that does not read holds nothing for long.
	writeTimeout = 20 * time.Second
)

// message is what the script of a page receives.
type message struct {
	HTML    string `json:"html,omitempty"`
	Title   string `json:"title,omitempty"`
	Said    string `json:"said,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// serveEvents follows a view: it sends the fragment at once and after each change, as Server-Sent Events.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) error {
	v, err := viewOfEvents(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if !p.live.join(v) {
		return tooManyViewers()
	}
	defer p.live.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer events
	s := sink{w: w, control: http.NewResponseController(w)}
	s.write("retry: 3000\n\n")
	p.follow(r, v, &s)
	return nil
}

// follow sends the changes of the view until the browser disconnects, the page stops, or longestStream is over.
func (p *Page) follow(r *http.Request, v view, s *sink) {
	end := time.NewTimer(longestStream)
	defer end.Stop()
	var sent *update
	for !s.failed {
		latest, changed := p.live.state(v)
		if latest != nil && latest != sent {
			s.send(*latest)
			sent = latest
		}
		select {
		case <-changed:
		case <-time.After(p.live.heartbeat):
			s.write("event: heartbeat\ndata: \n\n") // not a comment, which the script of a page would not see
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		case <-p.live.ending.Done():
			return
		}
	}
}

// sink writes events to one browser.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	failed  bool
}

// send writes the update as one event. JSON has no line breaks, which would end an event.
func (s *sink) send(u update) {
	m := message{HTML: string(u.fragment.html), Title: u.fragment.title, Said: u.fragment.said}
	if u.problem != "" {
		m = message{Problem: u.problem}
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic("marshalling an event: " + err.Error()) // unreachable: plain strings
	}
	s.write(fmt.Sprintf("data: %s\n\n", data))
}

// write writes the text with its own time limit, because the server's limit is for a whole answer.
func (s *sink) write(text string) {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // the error means that the writer has no limit
	if _, err := s.w.Write([]byte(text)); err != nil {
		s.failed = true
		return
	}
	s.failed = s.control.Flush() != nil
}
