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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"drydock.dev/shared/api"
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
