package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
)

// ForFunction returns a config that identifies the function in the API server's metrics and audit log. Unless the config
// has a limit for its requests, the result has that of the settings.
func ForFunction(config *rest.Config, function api.Function, settings api.Settings) *rest.Config {
	own := rest.CopyConfig(config)
	own.UserAgent = userAgent + "/" + string(function)
	if own.RateLimiter == nil {
		own = Limited(own, settings)
	}
	return own
}

// Limited returns a config with the limit of the settings. All clients of this config and of its copies share the limit: together they send
// at most the rate, and after idle time a tenth of it more in one second.
func Limited(config *rest.Config, settings api.Settings) *rest.Config {
	own := rest.CopyConfig(config)
	if rate := settings.APIRate; rate > 0 {
		own.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(rate), max(rate/10, 1))
	}
	return own
}

// userAgent begins the User-Agent of every request.
const userAgent = "drydock"

// busy is the pause that the API server has asked this process for. All functions of the process obey it together. Otherwise each of their
// requests would find out by itself that the API server is overloaded.
var busy pause

// longestPause is the longest pause that an answer can ask for: a proxy may be wrong. It is shorter than the time limit of an event, so
// that most events that have to wait can still be handled.
const longestPause = 15 * time.Second

// pause is the time before which no request is sent.
type pause struct {
	mu    sync.Mutex
	until time.Time
}

// extend lets the pause last at least that long.
func (p *pause) extend(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}

func (p *pause) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// wait waits for the end of the pause, and up to a quarter of it longer, so that not all requests are sent at the same moment.
func (p *pause) wait(ctx context.Context) error {
	for {
		left := p.left(time.Now())
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left + time.Duration(rand.Int64N(int64(left)/4+1)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the API server is overloaded and has asked for a pause of %s more: %w", left.Round(time.Second), ctx.Err())
		case <-timer.C:
		}
	}
}

// polite is a transport that obeys the pauses. client-go repeats a request whose answer has the header Retry-After (client-go
// rest/with_retry.go).
type polite struct {
	next  http.RoundTripper
	pause *pause
}

// RoundTrip sends the request after the pause.
func (p polite) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.pause.wait(r.Context()); err != nil {
		return nil, err
	}
	response, err := p.next.RoundTrip(r)
	if err == nil {
		if long := askedPause(r, response); long > 0 {
			p.pause.extend(time.Now().Add(long))
		}
		limitRetryAfter(response)
	}
	return response, err
}

// limitRetryAfter bounds how long client-go waits before it repeats this request.
func limitRetryAfter(response *http.Response) {
	longest := int(longestPause / time.Second)
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > longest {
		response.Header.Set("Retry-After", strconv.Itoa(longest))
	}
}

// askedPause returns how long the API server asks its clients to wait. It answers 429 if its priority and fairness has no room for the
// request. It also answers 429 to an eviction that a PodDisruptionBudget does not allow, which concerns only that pod.
func askedPause(r *http.Request, response *http.Response) time.Duration {
	overloaded := response.StatusCode == http.StatusTooManyRequests && !strings.HasSuffix(r.URL.Path, "/eviction")
	if !overloaded && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
}

// turnsPath ends the URL of the list of turns.
const turnsPath = "/namespaces/" + api.HomeNamespace + "/configmaps/" + api.TurnsConfigMap

// serialTurns is a transport that sends the writes of the list of turns one after the other. The API server repeats a patch without a
// resourceVersion until it meets no other write (GuaranteedUpdate in kubernetes staging apiserver pkg/storage/etcd3). Of a hundred patches
// at once, most then fail after the time limit of a request. client-go's limit of requests applies before the transport, so no other
// request delays a write that has its place.
type serialTurns struct {
	next http.RoundTripper
	slot chan struct{} // has an element while a write is sent
}

func newSerialTurns(next http.RoundTripper) serialTurns {
	return serialTurns{next: next, slot: make(chan struct{}, 1)}
}

// RoundTrip sends the request. A write of the list waits for the write before it.
func (s serialTurns) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, turnsPath) {
		return s.next.RoundTrip(r)
	}
	select {
	case s.slot <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-s.slot }()
	return s.next.RoundTrip(r)
}

// joinTrace attaches this event to the trace of the set's active operation, or of the finished operation that the event names. Some events,
// such as the end of a Job, do not name their operation. It is known only when the set has been read.
func joinTrace(ctx context.Context, set *appsv1.StatefulSet) {
	records, current := operation.Of(set), telemetry.From(ctx)
	if records.ResizeErr != nil || records.SleepErr != nil {
		return
	}
	if resize := records.Resize; resize != nil && (records.Resizing() || current.NamesOperation(resize.Operation)) {
		current.Join(resize.Operation, resize.Trace)
		return
	}
	if sleep := records.Sleep; sleep != nil && (sleep.Active() || current.NamesOperation(sleep.Operation)) {
		current.Join(sleep.Operation, sleep.Trace)
	}
}

// joinJournalTrace does the same for an operation whose set is gone or has lost its record. It takes the trace from the journal.
func joinJournalTrace(ctx context.Context, o *world.Observed) {
	if record, err := o.Record(); err != nil || record != nil && record.Active() {
		return
	}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			telemetry.From(ctx).Join(journal.Record.Operation, journal.Record.Trace)
			return
		}
	}
}
