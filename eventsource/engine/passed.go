package engine

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Passed says that an event passed the Broker.
type Passed struct {
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Subject  string    `json:"subject,omitempty"`
	Concerns string    `json:"concerns,omitempty"`
	From     string    `json:"from"`
	ID       string    `json:"id"`
}

// passedFrom reads the headers of an event in binary mode, which is how Knative's dispatcher sends.
func passedFrom(h http.Header) Passed {
	return Passed{
		Time: time.Now().UTC(), Type: h.Get("Ce-Type"), Subject: h.Get("Ce-Subject"), Concerns: h.Get("Ce-Concerns"),
		From: h.Get("Ce-Source"), ID: h.Get("Ce-Id"),
	}
}

// streamBuffer is how many events a slow reader may lag behind before it misses some.
const streamBuffer = 256

// Stream shows passing events to whoever listens: as lines of JSON on a writer, and on an HTTP endpoint.
type Stream struct {
	mu      sync.Mutex
	readers map[chan Passed]bool
	log     *json.Encoder
}

// NewStream writes to the log too; nil for none.
func NewStream(log io.Writer) *Stream {
	s := &Stream{readers: map[chan Passed]bool{}}
	if log != nil {
		s.log = json.NewEncoder(log)
	}
	return s
}

// Passed never waits for a reader.
func (s *Stream) Passed(p Passed) {
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

// ServeHTTP streams until the client goes away. It is for the machine's own user only (kubectl port-forward arrives from
// loopback too): names of objects are nobody else's business.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !net.ParseIP(host).IsLoopback() {
		http.Error(w, "only from loopback; use kubectl port-forward", http.StatusForbidden)
		return
	}
	reader := make(chan Passed, streamBuffer)
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

func (s *Stream) subscribe(reader chan Passed, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.readers[reader] = true
		return
	}
	delete(s.readers, reader)
}
