package engine

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// PassedEvent describes an event that passed the Broker.
type PassedEvent struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Subject  string    `json:"subject,omitempty"`
	Concerns string    `json:"concerns,omitempty"`
	From     string    `json:"from"`
	ID       string    `json:"id"`
}

// passedEventFrom returns the description of the event from its headers. Knative's dispatcher sends events in binary mode.
func passedEventFrom(h http.Header) PassedEvent {
	return PassedEvent{
		Time: time.Now().UTC(), Type: h.Get("Ce-Type"), Subject: h.Get("Ce-Subject"), Concerns: h.Get("Ce-Concerns"),
		From: h.Get("Ce-Source"), ID: h.Get("Ce-Id"),
	}
}

// readerBuffer is the number of events that are kept for a slow reader before it misses some.
const readerBuffer = 256

// Stream writes passing events as lines of JSON to a log and to the clients of an HTTP endpoint.
type Stream struct {
	mu      sync.Mutex
	readers map[chan PassedEvent]bool
	log     *json.Encoder
}

// NewStream returns a stream that also writes to the log. The log may be nil.
func NewStream(log io.Writer) *Stream {
	s := &Stream{readers: map[chan PassedEvent]bool{}}
	if log != nil {
		s.log = json.NewEncoder(log)
	}
	return s
}

// Passed sends the event to all readers. It never waits for a reader.
func (s *Stream) Passed(p PassedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		_ = s.log.Encode(p)
	}
	for reader := range s.readers {
		select {
		case reader <- p:
		default:
		}
	}
}

// ServeHTTP streams events until the client disconnects. It accepts only clients from loopback, because the stream contains names of
// objects. kubectl port-forward also arrives from loopback.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !net.ParseIP(host).IsLoopback() {
		http.Error(w, "the stream accepts only clients from loopback; use kubectl port-forward", http.StatusForbidden)
		return
	}
	reader := make(chan PassedEvent, readerBuffer)
	s.subscribe(reader, true)
	defer s.subscribe(reader, false)

	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	encoder := json.NewEncoder(w)
	for {
		select {
		case p := <-reader:
			if encoder.Encode(p) != nil || control.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Stream) subscribe(reader chan PassedEvent, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.readers[reader] = true
		return
	}
	delete(s.readers, reader)
}
