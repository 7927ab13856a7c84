package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sabotage is a failure of one API write.
type Sabotage string

const (
	// DieBefore: the process dies before the write is sent.
	DieBefore Sabotage = "dies before"
	// DieAfter: the process dies after the API server has accepted the write, before it reads the response.
	DieAfter Sabotage = "dies after"
	// Answer409, Answer429, Answer500: the write is rejected once.
	Answer409 Sabotage = "gets 409 at"
	Answer429 Sabotage = "gets 429 at"
	Answer500 Sabotage = "gets 500 at"
	// TimesOut: the write is accepted, and its response is lost.
	TimesOut Sabotage = "waits in vain at"
)

// Sabotages are all failures.
var Sabotages = []Sabotage{DieBefore, DieAfter, Answer409, Answer429, Answer500, TimesOut}

// Saboteur is an HTTP transport that counts API writes and makes one of them fail.
type Saboteur struct {
	// At is the number of the failing write, from 1. With 0 all writes succeed.
	At      int
	Failure Sabotage
	// OnWrite is called after every write that the API server has received.
	OnWrite func(description string)

	mu     sync.Mutex
	writes []string
	idle   []string
	dead   bool
}

var errDead = errors.New("the process is dead")

// Wrap returns the transport.
func (s *Saboteur) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if s.isDead() {
			return nil, errDead
		}
		if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") { // a dry run changes nothing
			return next.RoundTrip(r)
		}
		n := s.count(r)
		if n == s.At {
			return s.sabotage(next, r)
		}
		before := versionOf(next, r)
		response, err := next.RoundTrip(r)
		if before != "" && err == nil && response.StatusCode == http.StatusOK && before == versionOf(next, r) {
			s.mu.Lock()
			s.idle = append(s.idle, fmt.Sprintf("write %d, %s", n, describe(r)))
			s.mu.Unlock()
		}
		s.reportWrite(r)
		return response, err
	})
}

// versionOf reads the resourceVersion of a patch's object with the rights of the client. It returns an empty string
// after an error.
func versionOf(next http.RoundTripper, patch *http.Request) string {
	if patch.Method != http.MethodPatch {
		return ""
	}
	get := patch.Clone(context.WithValue(patch.Context(), ownRead{}, true))
	get.Method, get.Body, get.ContentLength, get.URL.RawQuery = http.MethodGet, nil, 0, ""
	get.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	response, err := next.RoundTrip(get)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var object metav1.PartialObjectMetadata
	if json.NewDecoder(response.Body).Decode(&object) != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return object.ResourceVersion
}

// Idle returns the patches without effect (I7).
func (s *Saboteur) Idle() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.idle...)
}

func (s *Saboteur) sabotage(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	switch s.Failure {
	case DieBefore:
		s.die()
		return nil, errDead
	case DieAfter, TimesOut:
		response, err := next.RoundTrip(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		s.reportWrite(r)
		if s.Failure == TimesOut {
			return nil, context.DeadlineExceeded
		}
		s.die()
		return nil, errDead
	case Answer409:
		return answer(r, http.StatusConflict, "Conflict"), nil
	case Answer429:
		return answer(r, http.StatusTooManyRequests, "TooManyRequests"), nil
	default:
		return answer(r, http.StatusInternalServerError, "InternalError"), nil
	}
}

func answer(r *http.Request, code int, reason string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"sabotage","code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Status: reason, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func (s *Saboteur) count(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, describe(r))
	return len(s.writes)
}

func (s *Saboteur) reportWrite(r *http.Request) {
	if s.OnWrite != nil {
		s.OnWrite(describe(r))
	}
}

func describe(r *http.Request) string { return r.Method + " " + r.URL.Path }

func (s *Saboteur) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *Saboteur) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Dead reports whether the process died.
func (s *Saboteur) Dead() bool { return s.isDead() }

// Writes returns the attempted writes, in order.
func (s *Saboteur) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.writes...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
