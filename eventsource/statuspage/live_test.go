package statuspage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drydock.dev/test/kit/build"
)

// follow opens a stream and returns its messages. The channel is closed at the end of the stream.
func follow(ctx context.Context, t *testing.T, url string) <-chan message {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("any", secret)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	messages := make(chan message, 100)
	go func() {
		defer close(messages)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var m message
				if json.Unmarshal([]byte(data), &m) == nil {
					messages <- m
				}
			}
		}
	}()
	return messages
}

// await returns the next message, and fails without one.
func await(t *testing.T, messages <-chan message) message {
	t.Helper()
	select {
	case m, ok := <-messages:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("no message arrives")
	}
	return message{}
}

func TestStreamSendsEachChangeOnce(t *testing.T) {
	c := newCluster(t, resizing(1<<30))
	p := c.page(t)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	messages := follow(t.Context(), t, server.URL+"/events?set="+build.Namespace+"/web")
	if m := await(t, messages); !strings.Contains(m.HTML, "1 GiB of 3 GiB") || m.Title != build.Namespace+"/web" || m.Said == "" {
		t.Errorf("%+v", m)
	}
	c.put(resizing(2 << 30))
	if m := await(t, messages); !strings.Contains(m.HTML, "2 GiB of 3 GiB") {
		t.Errorf("%+v", m)
	}
	c.fail.Store(true)
	if m := await(t, messages); m.HTML != "" || !strings.Contains(m.Problem, "cannot be read") {
		t.Errorf("%+v", m)
	}
	c.fail.Store(false)
	if m := await(t, messages); m.Problem != "" || !strings.Contains(m.HTML, "2 GiB of 3 GiB") {
		t.Errorf("%+v", m)
	}
	c.put(build.Lists{})
	if m := await(t, messages); !strings.Contains(m.Problem, "does not exist") {
		t.Errorf("%+v", m)
	}
	p.Stop()
	if m, open := <-messages; open {
		t.Errorf("the stream goes on after Stop: %+v", m)
	}
}

// TestHostileTextForgesNoEvent: a line break in a message must not begin another event.
func TestHostileTextForgesNoEvent(t *testing.T) {
	w := httptest.NewRecorder()
	s := sink{w: w, control: http.NewResponseController(w)}
	s.send(update{fragment: fragment{html: []byte(hostile()), title: hostile(), said: hostile()}})
	if lines := strings.Split(w.Body.String(), "\n"); len(lines) != 3 || strings.Contains(w.Body.String(), "\r") {
		t.Errorf("%d lines", len(lines))
	}
}

// TestNothingIsReadWithoutViewers: one loop reads for all viewers, and it ends with the last one.
func TestNothingIsReadWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		l := newLive(10, func(_ context.Context, views []view) map[view]update {
			reads++
			updates := map[view]update{}
			for _, v := range views {
				updates[v] = update{fragment: fragment{html: []byte("x")}}
			}
			return updates
		}, slog.New(slog.DiscardHandler))
		defer l.stop()
		time.Sleep(time.Hour)
		if reads != 0 {
			t.Fatalf("%d reads without viewers", reads)
		}
		list, set := view{page: 1}, view{namespace: "shop", name: "web"}
		for _, v := range []view{list, list, set} {
			if !l.join(v) {
				t.Fatal("no room")
			}
		}
		time.Sleep(9 * time.Second)
		if reads != 5 {
			t.Errorf("%d reads in 9 s for three viewers, want 5", reads)
		}
		if _, fresh := l.latest(list); !fresh {
			t.Error("a page with viewers is read again for a request")
		}
		for _, v := range []view{list, list, set} {
			l.leave(v)
		}
		time.Sleep(time.Hour)
		if reads > 6 || len(l.topics) != 0 || l.running {
			t.Errorf("%d reads, %d topics, running %t after the last viewer", reads, len(l.topics), l.running)
		}
		l.join(list)
		time.Sleep(time.Second)
		if reads < 6 || !l.running {
			t.Error("the loop does not begin again")
		}
		l.leave(list)
		time.Sleep(time.Minute)
	})
}

// TestSlowReadsAreShown: while the API server hangs, the page must not pass for up to date. After it, it is up to date again, although the
// content is the same.
func TestSlowReadsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		l := newLive(10, func(_ context.Context, views []view) map[view]update {
			if slow {
				slow = false
				time.Sleep(time.Minute)
			}
			return map[view]update{views[0]: {fragment: fragment{html: []byte("x")}}}
		}, slog.New(slog.DiscardHandler))
		v := view{page: 1}
		l.join(v)
		time.Sleep(time.Second)
		slow = true
		for _, row := range []struct {
			after   time.Duration
			problem bool
		}{{5 * time.Second, false}, {20 * time.Second, true}, {40 * time.Second, false}} {
			time.Sleep(row.after)
			if latest, _ := l.state(v); latest == nil || (latest.problem != "") != row.problem || string(latest.fragment.html) != "x" {
				t.Errorf("after another %s: %+v, want a problem: %t", row.after, latest, row.problem)
			}
		}
		l.leave(v)
		l.stop()
		time.Sleep(time.Minute)
	})
}

func TestViewersAreLimited(t *testing.T) {
	c := newCluster(t, resizing(0))
	p := c.page(t)
	p.live.limit = 1
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	await(t, follow(ctx, t, server.URL+"/events"))
	if w := get(t, p, "/events"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	cancel()
	for {
		p.live.mu.Lock()
		n := p.live.viewers
		p.live.mu.Unlock()
		if n == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPanicInTheLoopIsAProblem: the standalone program runs the functions in the same process.
func TestPanicInTheLoopIsAProblem(t *testing.T) {
	l := newLive(1, func(context.Context, []view) map[view]update { panic("broken") }, slog.New(slog.DiscardHandler))
	v := view{page: 1}
	if u := l.guarded([]view{v})[v]; !strings.Contains(u.problem, "cannot be rendered") {
		t.Errorf("%+v", u)
	}
}

// broken is a writer whose browser has disconnected.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, errors.New("disconnected") }

func TestStreamEndsWhenAWriteFails(t *testing.T) {
	p := newCluster(t, resizing(0)).page(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil)
	r.SetBasicAuth("any", secret)
	p.ServeHTTP(broken{httptest.NewRecorder()}, r) // returns
	if p.live.viewers != 0 {
		t.Error("the viewer still counts")
	}
}
