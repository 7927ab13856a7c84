package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// overloaded answers the first requests with 429, and notes when it gets which request.
type overloaded struct {
	refusals int
	header   string

	mu       sync.Mutex
	arrivals []time.Time
	agents   []string
}

func (o *overloaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.arrivals, o.agents = append(o.arrivals, time.Now()), append(o.agents, r.UserAgent())
	refuse := len(o.arrivals) <= o.refusals
	o.mu.Unlock()
	if refuse {
		w.Header().Set("Retry-After", o.header)
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	lists := build.EmptyLists()
	lists.ServeHTTP(w, r)
}

// TestFunctionsPauseTogether: one function learns that the API server is overloaded, and the others send nothing during the pause.
func TestFunctionsPauseTogether(t *testing.T) {
	busy = pause{}
	server := &overloaded{refusals: 1, header: "1"}
	address := httptest.NewServer(server)
	defer address.Close()
	read := func(function api.Function) error {
		client := NewClient(ForFunction(&rest.Config{Host: address.URL}, function, api.Settings{}))
		_, err := client.Get(t.Context(), plan.Claims, build.Namespace, "data-web-0", &corev1.PersistentVolumeClaim{})
		return err
	}
	if err := read(api.Backup); err != nil { // it waits and tries again
		t.Fatal(err)
	}
	if len(server.arrivals) != 2 {
		t.Fatalf("%d requests", len(server.arrivals))
	}
	if gap := server.arrivals[1].Sub(server.arrivals[0]); gap < time.Second {
		t.Errorf("the next request came after %s, the API server asked for 1s", gap)
	}
	busy.extend(time.Now().Add(500 * time.Millisecond))
	began := time.Now()
	var all sync.WaitGroup
	for _, function := range []api.Function{api.Restore, api.Sift, api.DetectResize} {
		all.Go(func() {
			if err := read(function); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(server.arrivals) != 5 {
		t.Errorf("%d requests, want one more of each function", len(server.arrivals)-2)
	}
	for _, at := range server.arrivals[2:] {
		if at.Sub(began) < 490*time.Millisecond {
			t.Errorf("a request came after %s of the pause", at.Sub(began))
		}
	}
	for _, agent := range server.agents {
		if !strings.HasPrefix(agent, "drydock/") {
			t.Errorf("User-Agent %q", agent)
		}
	}
}

func TestPauseEndsWithTheEvent(t *testing.T) {
	p := &pause{}
	p.extend(time.Now().Add(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.wait(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "overloaded") {
		t.Error(err)
	}
}

func TestOnlyOverloadPausesAll(t *testing.T) {
	for name, row := range map[string]struct {
		status       int
		path, header string
		want         time.Duration
	}{
		"priority and fairness has no room": {429, "/api/v1/pods", "1", time.Second},
		"the API server starts":             {503, "/api/v1/pods", "5", 5 * time.Second},
		"a budget refuses an eviction":      {429, "/api/v1/namespaces/shop/pods/web-0/eviction", "10", 0},
		"it names no time":                  {429, "/api/v1/pods", "", 0},
		"it names a date":                   {429, "/api/v1/pods", "Wed, 21 Oct 2026 07:28:00 GMT", 0},
		"it names an absurd time":           {429, "/api/v1/pods", "86400", longestPause},
		"it names more than time can hold":  {429, "/api/v1/pods", "9223372036854775807", longestPause},
		"a conflict":                        {409, "/api/v1/pods", "1", 0},
		"success":                           {200, "/api/v1/pods", "1", 0},
	} {
		request := httptest.NewRequest(http.MethodGet, row.path, nil)
		response := &http.Response{StatusCode: row.status, Header: http.Header{"Retry-After": {row.header}}}
		if got := askedPause(request, response); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// TestRequestIsRepeatedAfterAnAbsurdTime uses a fake clock: client-go itself waits for the time in the answer.
func TestRequestIsRepeatedAfterAnAbsurdTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy = pause{}
		defer func() { busy = pause{} }()
		requests := 0
		config := &rest.Config{Host: "http://api.example", Transport: answers(func(r *http.Request) *http.Response {
			answer := httptest.NewRecorder()
			if requests++; requests == 1 {
				answer.Header().Set("Retry-After", "86400")
				answer.WriteHeader(http.StatusServiceUnavailable)
			} else {
				build.EmptyLists().ServeHTTP(answer, r)
			}
			return answer.Result()
		})}
		began := time.Now()
		_, err := NewClient(config).Get(t.Context(), plan.Claims, build.Namespace, "data-web-0", &corev1.PersistentVolumeClaim{})
		if took := time.Since(began); err != nil || requests != 2 || took > 2*longestPause {
			t.Errorf("%d requests, %v; it took %s", requests, err, took)
		}
	})
}

// answers is a transport without a network.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestRateOfAFunctionHasALimit(t *testing.T) {
	if config := ForFunction(&rest.Config{}, api.Backup, api.Settings{}); config.RateLimiter != nil {
		t.Error("a limit without a setting")
	}
	config := ForFunction(&rest.Config{}, api.Backup, api.Settings{APIRate: 50})
	if config.RateLimiter.QPS() != 50 || !config.RateLimiter.TryAccept() {
		t.Error(config.RateLimiter.QPS())
	}
	passed := 1
	for config.RateLimiter.TryAccept() {
		passed++
	}
	if passed < 5 || passed > 10 { // the bucket may have got tokens since
		t.Errorf("%d requests passed at once", passed)
	}
}

// TestFunctionsOfAProcessShareTheLimit: otherwise twelve functions would send twelve times as many requests.
func TestFunctionsOfAProcessShareTheLimit(t *testing.T) {
	settings := api.Settings{APIRate: 5}
	shared := Limited(&rest.Config{}, settings)
	backup, restore := ForFunction(shared, api.Backup, settings), ForFunction(Impersonate(shared, api.Restore), api.Restore, settings)
	for backup.RateLimiter.TryAccept() {
	}
	if restore.RateLimiter.TryAccept() {
		t.Error("restore sent a request beyond the limit")
	}
}
