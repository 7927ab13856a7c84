package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const hookFile = `{"hook":"pre","operation":"0123456789ab","removed":[2]}`

// server answers each request with the next of its statuses, and repeats the last one. A status of 0 closes the connection. It
// collects the bodies of the requests, and the problems of their method and headers.
type server struct {
	*httptest.Server
	statuses []int
	headers  map[string]string
	bodies   []string
	problems []string
}

func newServer(t *testing.T, statuses ...int) *server {
	s := &server{statuses: statuses, headers: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.bodies = append(s.bodies, string(body))
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		r.Header.Get("Idempotency-Key") != "0123456789ab-pre" {
		s.problems = append(s.problems, r.Method+" with "+strings.Join(r.Header.Values("Idempotency-Key"), " "))
	}
	for key, value := range s.headers {
		w.Header().Set(key, value)
	}
	status := s.statuses[min(len(s.bodies), len(s.statuses))-1]
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte("the secret of the server"))
}

// called is the result of a call. waits has the duration of each wait between two requests.
type called struct {
	code        int
	log, report string
	waits       []time.Duration
}

// callURL runs drydock call without really waiting. After 20 waits it cancels the call, as the Job's deadline would do.
func callURL(t *testing.T, address string, args ...string) called {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hook.json")
	if err := os.WriteFile(file, []byte(hookFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c, _, err := parseCall(append([]string{"--url=" + address, "--file=" + file, "--timeout=5s"}, args...), &log, &log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := called{}
	c.sleep = func(_ context.Context, wait time.Duration) {
		if result.waits = append(result.waits, wait); len(result.waits) == 20 {
			cancel()
		}
	}
	result.code, result.report = c.run(ctx)
	result.log = log.String()
	return result
}

// TestCallRepeatsUntilAnswerIsFinal: 200 and 204 complete the hook. 202, 429, 5xx and a lost connection are repeated, with the wait of
// Retry-After if that can be read. Any other status is final.
func TestCallRepeatsUntilAnswerIsFinal(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		statuses []int
		header   string // Retry-After
		code     int
		waits    []time.Duration
		report   string
	}{
		"done":                       {[]int{200}, "", exitOK, nil, "200 OK"},
		"done, without content":      {[]int{204}, "", exitOK, nil, "204 No Content"},
		"not done yet":               {[]int{202, 202, 200}, "", exitOK, []time.Duration{5 * s, 5 * s}, "200 OK"},
		"not done for a while":       {[]int{202, 200}, "7", exitOK, []time.Duration{7 * s}, "200 OK"},
		"not done for a long time":   {[]int{202, 200}, "100000000000000000", exitOK, []time.Duration{60 * s}, "200 OK"},
		"done soon":                  {[]int{202, 200}, "0", exitOK, []time.Duration{s}, "200 OK"},
		"not done, and no time":      {[]int{202, 200}, "soon", exitOK, []time.Duration{5 * s}, "200 OK"},
		"not done, a negative time":  {[]int{202, 200}, "-3", exitOK, []time.Duration{5 * s}, "200 OK"},
		"a date in the past":         {[]int{202, 200}, "Sun, 06 Nov 1994 08:49:37 GMT", exitOK, []time.Duration{s}, "200 OK"},
		"a date in the far future":   {[]int{202, 200}, "Sun, 06 Nov 2094 08:49:37 GMT", exitOK, []time.Duration{60 * s}, "200 OK"},
		"too much to do":             {[]int{429, 429, 200}, "", exitOK, []time.Duration{s, 2 * s}, "200 OK"},
		"too much to do for a while": {[]int{429, 200}, "9", exitOK, []time.Duration{9 * s}, "200 OK"},
		"broken":                     {[]int{500, 502, 503, 599, 200}, "", exitOK, []time.Duration{s, 2 * s, 4 * s, 8 * s}, "200 OK"},
		"broken for a long time": {[]int{500, 500, 500, 500, 500, 500, 500, 200}, "", exitOK,
			[]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, "200 OK"},
		"no answer":                    {[]int{0, 0, 200}, "", exitOK, []time.Duration{s, 2 * s}, "200 OK"},
		"broken, then at work":         {[]int{500, 500, 202, 500, 200}, "", exitOK, []time.Duration{s, 2 * s, 5 * s, s}, "200 OK"},
		"forbidden":                    {[]int{403}, "5", exitRefused, nil, "403 Forbidden"},
		"not found, after it has been": {[]int{202, 404}, "", exitRefused, []time.Duration{5 * s}, "404 Not Found"},
		"moved":                        {[]int{307}, "", exitRefused, nil, "307 Temporary Redirect, redirects are not followed"},
		"another success":              {[]int{201}, "", exitRefused, nil, "201 Created"},
		"a teapot":                     {[]int{418, 200}, "", exitRefused, nil, "418 I'm a teapot"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, row.statuses...)
			server.headers["Location"] = "/elsewhere"
			if row.header != "" {
				server.headers["Retry-After"] = row.header
			}
			got := callURL(t, server.URL+"/hook?token=secret#part")
			want := "POST " + server.URL + "/hook: " + row.report
			if got.code != row.code || got.report != want || !slices.Equal(got.waits, row.waits) {
				t.Errorf("%d %v %q, want %d %v %q", got.code, got.waits, got.report, row.code, row.waits, want)
			}
			if len(server.problems) > 0 || len(server.bodies) != len(row.waits)+1 || server.bodies[len(server.bodies)-1] != hookFile {
				t.Errorf("requests %q: %q", server.bodies, server.problems)
			}
			if strings.Contains(got.log+got.report, "secret") {
				t.Errorf("the output contains a secret: %s%s", got.log, got.report)
			}
		})
	}
}

// TestCallEndsWithJob: the call ends when its context does, also during a wait. A Job ends it with SIGTERM at its deadline.
func TestCallEndsWithJob(t *testing.T) {
	server := newServer(t, 202)
	got := callURL(t, server.URL)
	if got.code != exitError || !strings.HasSuffix(got.report, ": 202 Accepted. The call ended before the hook was complete") ||
		len(server.bodies) != 20 {
		t.Errorf("%d %q after %d requests", got.code, got.report, len(server.bodies))
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if sleep(ctx, time.Hour); time.Since(began) > time.Minute {
		t.Error("the call did not stop sleeping")
	}
}

// TestHangingServerTimesOut: a request that gets no answer within the timeout is repeated.
func TestHangingServerTimesOut(t *testing.T) {
	hangs := make(chan struct{})
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests++; requests == 1 {
			<-hangs
		}
	}))
	defer server.Close()
	defer close(hangs)
	got := callURL(t, server.URL, "--timeout=100ms")
	if got.code != exitOK || !slices.Equal(got.waits, []time.Duration{time.Second}) || !strings.Contains(got.log, "no answer: timeout") {
		t.Errorf("%+v", got)
	}
}

// TestEndlessBodyIsNotRead: the call reads only the status of an answer, so an endless body does not delay it.
func TestEndlessBodyIsNotRead(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for part := bytes.Repeat([]byte("x"), 1<<20); sent < 1<<10; sent++ {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if got := callURL(t, server.URL); got.code != exitOK || sent > 1<<9 {
		t.Errorf("%+v; %d MiB were sent", got, sent)
	}
}

// TestAnswerOfOtherProtocolIsNotReported: the output never quotes the answer of a server that does not speak HTTP, because that may have a
// secret.
func TestAnswerOfOtherProtocolIsNotReported(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte("-ERR secret\r\n"))
			_ = connection.Close()
		}
	}()
	got := callURL(t, "http://"+listener.Addr().String())
	_ = listener.Close()
	if got.code != exitError || strings.Contains(got.log+got.report, "secret") || !strings.Contains(got.log, "no answer: ") {
		t.Errorf("%+v", got)
	}
	if got := callURL(t, "http://"+listener.Addr().String()); !strings.Contains(got.report, "connection refused") {
		t.Errorf("%+v", got)
	}
}

// TestCallUsesNoProxy: the call uses no proxy and no cookies, and does not follow redirects.
func TestCallUsesNoProxy(t *testing.T) {
	client := newCaller(time.Second)
	if client.Transport.(*http.Transport).Proxy != nil || client.Jar != nil {
		t.Error("the client has a proxy or cookies")
	}
	elsewhere := newServer(t, 200)
	server := newServer(t, 302)
	server.headers["Location"] = elsewhere.URL
	if got := callURL(t, server.URL); got.code != exitRefused || len(elsewhere.bodies) > 0 {
		t.Errorf("%+v, %d", got, len(elsewhere.bodies))
	}
}

func TestInvalidCallFlagsAreRejected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hook.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no URL":          {},
		"a user":          {"--url=http://u:secret@h/"},
		"no host":         {"--url=http:///"},
		"another scheme":  {"--url=file:///etc/passwd"},
		"no timeout":      {"--url=http://h/", "--timeout=0s"},
		"an argument":     {"--url=http://h/", "more"},
		"an unknown flag": {"--url=http://h/", "--method=GET"},
		"no file":         {"--url=http://h/", "--file=/nowhere"},
		"a broken file":   {"--url=http://h/", "--file=" + file},
	} {
		report := filepath.Join(t.TempDir(), "report")
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"call", "--report=" + report}, args...), &stdout, &stderr)
		text, err := os.ReadFile(report)
		if code != exitUsage || err != nil || len(text) == 0 || strings.Contains(string(text)+stdout.String()+stderr.String(), "secret") {
			t.Errorf("%s: %d %q %q, %v", name, code, text, &stderr, err)
		}
	}
}

// TestCallWritesReport: the report file, in a pod the termination log, has the request and the status of the answer.
func TestCallWritesReport(t *testing.T) {
	server := newServer(t, 403)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hook.json"), []byte(hookFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"call", "--url=" + server.URL, "--file=" + folder + "/hook.json", "--report=" + folder + "/log"}
	code := run(t.Context(), args, &stdout, &stderr)
	text, _ := os.ReadFile(folder + "/log")
	if want := "POST " + server.URL + ": 403 Forbidden"; code != exitRefused || string(text) != want || stdout.String() != want+"\n" {
		t.Errorf("%d %q %q", code, text, &stdout)
	}
}
