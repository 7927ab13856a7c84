package statuspage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

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
