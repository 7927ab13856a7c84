package swarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"drydock.dev/shared/serve"
	"drydock.dev/test/kit/apiserver"
)

// process is a function that handles one event.
type process struct {
	name   string
	worker *worker
	stops  stop
	gate   chan bool     // true lets the request pass, false loses it
	signal chan struct{} // the process stands at its gate, or has ended
	at     string        // the request at the gate
	since  time.Time     // when it came there
	cancel context.CancelFunc
	writes int // how many it has sent
	ended  bool
}

// mostWrites is more than any event needs.
const mostWrites = 100

// stop says before which requests a process stops.
type stop int

const (
	free   stop = iota // before none
	writes             // before each write
	all                // before each request
)

type processKey struct{}

var errLost = errors.New("connection lost")

// start lets a process handle the event. It returns when the process has ended or stands at its gate, or nil if all processes are held.
func (w *World) start(d delivery, stops stop) *process {
	pool := w.pools[d.to]
	i := slices.IndexFunc(pool, func(p *worker) bool { return !p.busy })
	if i < 0 {
		w.queue = append(w.queue, d)
		return nil
	}
	w.count++
	p := &process{name: fmt.Sprintf("%s(%s)#%d", d.to, d.set(), w.count), worker: pool[i], stops: stops, gate: make(chan bool),
		signal: make(chan struct{})}
	p.worker.busy = true
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), processKey{}, p), serve.DefaultDeadline)
	p.cancel = cancel
	go func() {
		defer func() {
			if panicked := recover(); panicked != nil {
				w.violate("panic in %s: %v\n%s", p.name, panicked, debug.Stack())
			}
			p.ended = true
			p.signal <- struct{}{}
		}()
		answer, err := p.worker.Handle(ctx, d.Event)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.fail(d.to, p, err)
		}
		if answer != nil {
			w.route(*answer)
		}
	}()
	w.await(p)
	return p
}

// await waits until the process has ended or stands at its gate.
func (w *World) await(p *process) {
	<-p.signal
	if p.ended {
		p.cancel()
		p.worker.busy = false
		return
	}
	synctest.Wait()
}

// run starts a process that stops only if one of its writes is delayed.
func (w *World) run(d delivery) { w.keep(w.start(d, free)) }

// keep holds a process that stands at its gate.
func (w *World) keep(p *process) {
	if p != nil && !p.ended {
		w.tell("  %s is held before %s", p.name, p.at)
		w.held = append(w.held, p)
	}
}

// hold starts a process that stops at its gate, after it has let some requests pass.
func (w *World) hold(d delivery, stops stop, passing int) {
	p := w.start(d, stops)
	for ; p != nil && !p.ended && passing > 0; passing-- {
		p.gate <- true
		w.await(p)
	}
	w.keep(p)
}

// release lets the request of a held process arrive. The process stops before the next one if stays is true.
func (w *World) release(i int, stays bool) {
	p := w.held[i]
	if !stays {
		p.stops = free
	}
	p.gate <- true
	w.await(p)
	if p.ended {
		w.held = slices.Delete(w.held, i, i+1)
	}
}

// kill ends a held process. Its request is lost, and it sends no other.
func (w *World) kill(i int) {
	p := w.held[i]
	w.tell("  %s dies before %s", p.name, p.at)
	p.cancel()
	for p.stops = all; !p.ended; w.await(p) {
		p.gate <- false
	}
	w.held = slices.Delete(w.held, i, i+1)
}

// longestRequest is how long a request can be on its way: its client gives up after serve.DefaultDeadline, and the API server ends it after
// a minute.
const longestRequest = 2 * time.Minute

// loseOldRequests ends the held processes whose request has been on its way for too long after the time has passed.
func (w *World) loseOldRequests(after time.Duration) {
	for i := len(w.held) - 1; i >= 0; i-- {
		if time.Since(w.held[i].since)+after >= longestRequest {
			w.kill(i)
		}
	}
}

// gate is the transport of the functions. A request of a held process waits there, as on a slow network: it arrives even if
// the process has given up in the meantime.
type gate struct{ w *World }

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	p, _ := r.Context().Value(processKey{}).(*process)
	request, err := apiserver.Parse(r)
	if err != nil || p == nil {
		return nil, errors.Join(err, errLost)
	}
	if p.stops == all || request.Writes() && (p.stops == writes || g.w.isDelayed(p, request)) {
		p.at, p.since = r.Method+" "+request.Key.String(), time.Now()
		p.signal <- struct{}{}
		if !<-p.gate {
			return nil, errLost
		}
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	return g.w.answer(p, request)
}

// refusal says which writes of functions a webhook refuses.
type refusal struct {
	resource string
	names    []string // of objects; none stands for all
}

func (f refusal) concerns(r *apiserver.Request) bool {
	return f.resource == r.Resource && (len(f.names) == 0 || slices.Contains(f.names, r.Name))
}

// late says which write of a function is delayed: the n-th of those to the resources, or to any.
type late struct {
	n         int // 0 for none
	resources []string
}

// isDelayed reports whether an act delays this write. The process then stops before its next writes, too.
func (w *World) isDelayed(p *process, r *apiserver.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late.n == 0 || w.late.resources != nil && !slices.Contains(w.late.resources, r.Resource) {
		return false
	}
	if w.late.n--; w.late.n == 0 {
		p.stops = writes
	}
	return w.late.n == 0
}

// answer lets the server answer, unless a fault is due.
func (w *World) answer(p *process, r *apiserver.Request) (*http.Response, error) {
	if r.Writes() {
		w.tries[fmt.Sprintf("%s: %s %s", r.By.User, r.Method, r.Key)]++
	}
	if r.Writes() && w.refused.concerns(r) {
		w.tell("  a webhook refuses %s: %s %s", p.name, r.Method, r.Key)
		return forbidden(r), nil
	}
	if r.Part == "eviction" && w.breaksBudget(r.Name) {
		w.tell("  a budget refuses %s: %s %s", p.name, r.Method, r.Key)
		return tooMany(r), nil
	}
	answer := w.server.Serve(r)
	if r.Writes() {
		if p.writes++; p.writes > mostWrites {
			w.violate("%s writes without end, at last %s %s", p.name, r.Method, r.Key)
			return nil, errLost
		}
		result := ""
		if answer.StatusCode >= http.StatusBadRequest {
			result = fmt.Sprintf(" -> %d %s", answer.StatusCode, reason(answer))
		}
		w.tell("  %s: %s %s %s%s", p.name, r.Method, r.Key, w.summary(p, r.Content()), result)
		if result == "" && w.loses > 0 {
			w.loses--
			w.tell("  the answer is lost")
			w.observe()
			return nil, errLost
		}
	}
	w.observe()
	return answer, nil
}

// reached has the states of records that the worlds of this process have reached.
var reached sync.Map

func isReached(state string) bool {
	_, is := reached.Load(state)
	return is
}

// summary describes a JSON patch, and counts the records in it.
func (w *World) summary(p *process, body []byte) string {
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if json.Unmarshal(body, &ops) != nil {
		return ""
	}
	var words []string
	for _, op := range ops {
		if op.Path == "/metadata/resourceVersion" || op.Path == "/metadata/uid" {
			continue
		}
		value := string(op.Value)
		var quoted string
		if json.Unmarshal(op.Value, &quoted) == nil {
			value = quoted
		}
		var record struct{ Kind, Phase, Reason, Message string }
		if json.Unmarshal([]byte(value), &record) == nil && record.Kind != "" && record.Phase != "" {
			value = fmt.Sprintf("%s %s %s %q", record.Kind, record.Phase, record.Reason, record.Message)
			function, _, _ := strings.Cut(p.name, "(")
			state := strings.Join([]string{function, record.Kind, record.Phase, record.Reason}, " ")
			w.covered[state]++
			reached.Store(state, true)
		}
		if len(value) > 300 {
			value = value[:300] + "…"
		}
		words = append(words, op.Op+" "+strings.TrimPrefix(op.Path, "/metadata/annotations/drydock.dev~1")+" "+value)
	}
	return strings.Join(words, "; ")
}
