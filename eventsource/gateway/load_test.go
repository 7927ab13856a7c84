package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/shared/api"
)

// TestWaitingVisitorsShareReads: the number of reads does not grow with the number of visitors.
func TestWaitingVisitorsShareReads(t *testing.T) {
	group := labelled(api.GroupLabel, "site")
	c := newCluster(t, set("db", group, asleep()), set("web", group, asleep()))
	g := c.gateway(t, Options{Waiters: 1000})
	var all sync.WaitGroup
	start := time.Now()
	for range 200 {
		all.Go(func() {
			if w := get(t, g, pathBlocking+"?names=shop/web&timeout=2s"); w.Code != 504 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	// An observation is two reads. The first request writes and observes again.
	most := 2 * (3 + int(time.Since(start)/waitingTTL))
	if reads, writes := c.counts(); writes != 1 || reads > most {
		t.Errorf("%d reads, at most %d are due, and %d writes", reads, most, writes)
	}
}

// TestShortSessionsDoNotCauseManyWrites: a caller that requests short sessions at a high rate causes one write.
func TestShortSessionsDoNotCauseManyWrites(t *testing.T) {
	c := newCluster(t, set("web", asleep()))
	g := c.gateway(t, Options{})
	for i := range 100 {
		get(t, g, fmt.Sprintf("%s?names=shop/web&session_duration=%dms", pathPoke, 1+i))
	}
	if reads, writes := c.counts(); writes != 1 || reads > 6 {
		t.Errorf("%d reads and %d writes", reads, writes)
	}
}

func TestFailedReadIsCached(t *testing.T) {
	c := newCluster(t, set("web"))
	c.fails.Store(true)
	var asked atomic.Int64
	c.onRequest = func() { asked.Add(1) }
	g := c.gateway(t, Options{})
	for range 50 {
		if w := get(t, g, pathDynamic+"?names=shop/web"); w.Code != 503 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if asked.Load() > 10 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}

// TestWaitingRequestsAreLimited: further requests are rejected with Retry-After, and requests for a ready site are still answered.
func TestWaitingRequestsAreLimited(t *testing.T) {
	c := newCluster(t, set("web", asleep()), set("up"))
	g := c.gateway(t, Options{Waiters: 2}) // one for each site
	waits := make(chan *httptest.ResponseRecorder, 1)
	go func() { waits <- get(t, g, pathBlocking+"?names=shop/web&timeout=5m") }()
	for deadline := time.Now().Add(time.Minute); g.waiters.InUse() == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("no request waits")
		}
	}
	if w := get(t, g, pathBlocking+"?names=shop/web"); w.Code != 503 || w.Header().Get("Retry-After") != "5" ||
		w.Header().Get(statusHeader) != isNotReady {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(t, g, pathBlocking+"?names=shop/up"); w.Code != 200 {
		t.Errorf("a request that need not wait gets %d", w.Code)
	}
	if w := get(t, g, pathDynamic+"?names=shop/web"); w.Code != 200 {
		t.Errorf("a page does not wait: %d", w.Code)
	}
	g.Stop()
	<-waits
	if g.waiters.InUse() != 0 {
		t.Error("an ended wait still counts")
	}
}

func TestToken(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	c := newCluster(t, set("web"), set("db", labelled(api.GroupLabel, "site")))
	g := c.gateway(t, Options{TokenFile: file})
	visit := func(path, header string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	const poke = pathPoke + "?names=shop/web"
	for header, code := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer first": 200, "bearer first": 401, "Bearer ": 401,
		"Basic Og==": 401} {
		if w := visit(poke, header); w.Code != code || code == 401 && w.Header().Get("WWW-Authenticate") == "" || code == 401 &&
			w.Header().Get(statusHeader) != isNotReady {
			t.Errorf("%q: %d %v", header, w.Code, w.Header())
		}
	}
	write("second")
	if visit(poke, "Bearer first").Code != 401 || visit(poke, "Bearer second").Code != 200 {
		t.Error("the new token is not taken")
	}
	if w := visit(pathPoke+"?group=shop/none", "Bearer second"); !strings.Contains(w.Body.String(), `"availableGroups":["shop/site"]`) {
		t.Errorf("%s", w.Body)
	}
	if visit(pathHealth, "").Code != 200 {
		t.Error("a health check needs no token")
	}
	write(" \n")
	if w := visit(poke, "Bearer "); w.Code != 503 || strings.Contains(w.Body.String(), folder) {
		t.Errorf("an empty file: %d %s", w.Code, w.Body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if w := visit(poke, "Bearer second"); w.Code != 503 || strings.Contains(w.Body.String(), folder) {
		t.Errorf("no file: %d %s", w.Code, w.Body)
	}
}

// TestTokenIsNeverPrinted checks the settings, the log and the answer.
func TestTokenIsNeverPrinted(t *testing.T) {
	var log bytes.Buffer
	o := Options{Token: "s3cret"}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "token", o.Token)
	c := newCluster(t, set("web"))
	g := New(c.client(), api.Settings{}, o,
		slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	r := httptest.NewRequestWithContext(t.Context(), "GET", pathPoke+"?names=shop/web", nil)
	r.Header.Set("Authorization", "Bearer s3cret2")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if text := fmt.Sprint(o, log.String(), w.Body); strings.Contains(text, "s3cret") {
		t.Errorf("%s", text)
	}
}

// TestAnswerDoesNotDiscloseWhichSetsExist: the answer is the same for a missing set, a set that is not opted in, and a set in another
// namespace.
func TestAnswerDoesNotDiscloseWhichSetsExist(t *testing.T) {
	c := newCluster(t, set("private", labelled(api.ManagedLabel, "false")),
		set("restless", with(api.IdleTimeoutAnnotation, ""), labelled(api.GroupLabel, "restless")))
	g := c.gateway(t, Options{}, "shop", "lab")
	for _, form := range []string{"%s?names=shop/%s", "%s?group=shop/%s"} {
		for _, path := range []string{pathDynamic, pathBlocking, pathPoke, pathEvents} {
			want := ""
			for _, name := range []string{"private", "restless", "nothing"} {
				w := get(t, g, fmt.Sprintf(form, path, name))
				text := strings.ReplaceAll(fmt.Sprint(w.Code, w.Header(), w.Body), name, "NAME")
				text = strings.ReplaceAll(text, fmt.Sprint(w.Body.Len()), "LENGTH")
				if want == "" {
					want = text
				}
				if text != want || w.Code != 404 {
					t.Errorf("%s of %s gets\n%s\nwant\n%s", path, name, text, want)
				}
			}
		}
	}
}

// TestBusySiteDoesNotFillLog: only the request that writes the session is logged, and one refusal per second.
func TestBusySiteDoesNotFillLog(t *testing.T) {
	var log bytes.Buffer
	c := newCluster(t, set("web"))
	g := New(c.client(), api.Settings{}, Options{}, slog.New(slog.NewJSONHandler(&log, nil)))
	for range 50 {
		get(t, g, pathDynamic+"?names=shop/web")
	}
	if n := strings.Count(log.String(), `"msg":"request"`); n != 1 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	log.Reset()
	start := time.Now()
	for range 200 {
		get(t, g, pathDynamic+"?names=shop/none")
	}
	if n, most := strings.Count(log.String(), "\n"), 2+int(time.Since(start)/time.Second); n < 1 || n > most {
		t.Errorf("%d refusals are logged, at most %d:\n%s", n, most, &log)
	}
}

// TestReadsAreLimited: a request whose turn does not come before its time is over reads nothing.
func TestReadsAreLimited(t *testing.T) {
	c := newCluster(t, set("web"))
	g := c.gateway(t, Options{})
	for range maxReads {
		g.reads <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, pathPoke+"?names=shop/web", nil))
	if reads, _ := c.counts(); w.Code != http.StatusServiceUnavailable || reads > 0 {
		t.Errorf("%d after %d reads: %s", w.Code, reads, w.Body)
	}
	<-g.reads
	if w := get(t, g, pathPoke+"?names=shop/web"); w.Code != http.StatusOK {
		t.Errorf("%d with a free turn: %s", w.Code, w.Body)
	}
}
