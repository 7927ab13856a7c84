package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
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

// slowServer is a transport whose answers take a second. It counts the requests at once.
type slowServer struct{ now, most atomic.Int32 }

func (s *slowServer) RoundTrip(*http.Request) (*http.Response, error) {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	time.Sleep(time.Second)
	return &http.Response{}, nil
}

// TestWritesOfTurnsAreSentOneAfterTheOther: the API server fails most of many patches of one object at once. Other requests do not wait.
func TestWritesOfTurnsAreSentOneAfterTheOther(t *testing.T) {
	for _, row := range []struct {
		method, path string
		most         int32
	}{
		{http.MethodPatch, "/api/v1/namespaces/drydock/configmaps/drydock-turns", 1},
		{http.MethodGet, "/api/v1/namespaces/drydock/configmaps/drydock-turns", 5},
		{http.MethodPatch, "/api/v1/namespaces/shop/configmaps/drydock-turns", 5},
		{http.MethodPatch, "/apis/apps/v1/namespaces/shop/statefulsets/web", 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &slowServer{}
			transport := newSerialTurns(server)
			send := func(ctx context.Context) error {
				r, err := http.NewRequestWithContext(ctx, row.method, "https://api.example.com"+row.path, nil)
				if err != nil {
					t.Error(err)
				}
				_, err = transport.RoundTrip(r)
				return err
			}
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if err := send(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if row.most == 1 {
				short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := send(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("an event whose time is over waits: %v", err)
				}
			}
			all.Wait()
			if most := server.most.Load(); most != row.most {
				t.Errorf("%s %s: %d at once", row.method, row.path, most)
			}
		})
	}
}

const (
	ofStatus  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	ofJournal = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// record returns a record with the trace.
func record(phase api.Phase, trace string) *api.Resize {
	return &api.Resize{
		Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindResize, Phase: phase,
			Set: api.SetRef{Name: "web", UID: "u"}, Trace: "00-" + trace + "-1111111111111111-01"},
	}
}

func setOf(status *api.Resize) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}}
	if status != nil {
		set.Annotations = map[string]string{api.StatusAnnotation: status.Encode()}
	}
	return set
}

// TestEventJoinsTheTraceOfItsOperation: the objects, or the event itself, name the operation.
func TestEventJoinsTheTraceOfItsOperation(t *testing.T) {
	journal := &appsv1.ControllerRevision{Data: runtime.RawExtension{
		Raw: api.Journal{Version: api.RecordVersion, Record: *record(api.Planned, ofJournal)}.Encode()}}
	copied := record(api.Moving, ofStatus)
	copied.Set.UID = "uid-other"
	garbage := setOf(nil)
	garbage.Annotations = map[string]string{api.StatusAnnotation: "{"}
	for name, row := range map[string]struct {
		set      *appsv1.StatefulSet
		journals []*appsv1.ControllerRevision
		named    string // the operation that the event names
		want     string
	}{
		"no operation":                               {setOf(nil), nil, "", ""},
		"an active operation":                        {setOf(record(api.Moving, ofStatus)), nil, "", ofStatus},
		"a reverting operation":                      {setOf(record(api.Reverting, ofStatus)), nil, "", ofStatus},
		"a finished operation":                       {setOf(record(api.Succeeded, ofStatus)), nil, "", ""},
		"a finished operation that the event names":  {setOf(record(api.Succeeded, ofStatus)), nil, "0123456789ab", ofStatus},
		"the event names another operation":          {setOf(record(api.Succeeded, ofStatus)), nil, "ba9876543210", ""},
		"a record copied with a manifest":            {setOf(copied), nil, "", ""},
		"an unreadable record":                       {garbage, []*appsv1.ControllerRevision{journal}, "", ""},
		"the set is gone, but not its journal":       {nil, []*appsv1.ControllerRevision{journal}, "", ofJournal},
		"the set and its journal are gone":           {nil, nil, "", ""},
		"an active operation beside another journal": {setOf(record(api.Moving, ofStatus)), []*appsv1.ControllerRevision{journal}, "", ofStatus},
		"an unreadable journal":                      {nil, []*appsv1.ControllerRevision{{}, journal}, "", ofJournal},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			measure, err := telemetry.New(noop.Meter{}, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, received := measure.Receive(t.Context(), "restore", event.New(), nil)
			received.SetObject("n", "web", row.named)
			if row.set != nil {
				joinTrace(ctx, row.set)
			}
			joinJournalTrace(ctx, &world.Observed{Name: "web", Set: row.set, Journals: row.journals})
			received.End(ctx, telemetry.Result{})
			parent, got := recorder.Ended()[0].Parent(), ""
			if parent.IsValid() {
				got = parent.TraceID().String()
			}
			if got != row.want {
				t.Errorf("in trace %q, want %q", got, row.want)
			}
		})
	}
}
