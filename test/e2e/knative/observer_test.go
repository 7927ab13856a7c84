//go:build cluster

package knative

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// observer watches the functions' pods, and collects their logs.
type observer struct {
	kube  kubernetes.Interface
	start time.Time
	stop  context.CancelFunc
	all   sync.WaitGroup

	mu   sync.Mutex
	pods map[string]*seen
	// mayBeDenied is set by a test that removes rights.
	mayBeDenied bool
}

// seen is one pod of a function.
type seen struct {
	name, function, account string
	from, until, seenAt     time.Time // until its deletion, or the latest observation
	lines                   []line
}

// line is a function's log line for an event.
type line struct {
	Time    time.Time `json:"time"`
	Message string    `json:"msg"`
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Subject string    `json:"subject"`
	Outcome string    `json:"outcome"`
	Error   string    `json:"error"`
	TraceID string    `json:"trace_id"`
	raw     string
}

// observe watches until the test ends.
func observe(t testing.TB, kube kubernetes.Interface) *observer {
	ctx, stop := context.WithCancel(context.Background())
	o := &observer{kube: kube, start: time.Now(), stop: stop, pods: map[string]*seen{}}
	o.all.Go(func() { o.watch(ctx) })
	t.Cleanup(func() {
		stop()
		o.all.Wait()
		o.judge(t)
	})
	return o
}

// watch lists the pods again and again. It misses pods that live less than a fifth of a second, which never serve.
func (o *observer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if list, err := o.kube.CoreV1().Pods(drydock).List(ctx, metav1.ListOptions{LabelSelector: serviceLabel}); err == nil {
			o.note(ctx, list.Items)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (o *observer) note(ctx context.Context, pods []corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pod := range pods {
		p := o.pods[pod.Name]
		if p == nil && pod.DeletionTimestamp != nil {
			continue // a pod of the previous test
		}
		if p == nil {
			p = &seen{name: pod.Name, function: pod.Labels[serviceLabel], account: pod.Spec.ServiceAccountName,
				from: pod.CreationTimestamp.Time}
			o.pods[pod.Name] = p
			o.all.Go(func() { o.follow(ctx, p) })
		}
		p.seenAt = time.Now()
		if pod.DeletionTimestamp == nil {
			p.until = p.seenAt
		}
	}
}

// follow reads a pod's log from its first line, across restarts of its container.
func (o *observer) follow(ctx context.Context, p *seen) {
	for ctx.Err() == nil && o.exists(p) {
		options := &corev1.PodLogOptions{Container: "function", Follow: true}
		stream, err := o.kube.CoreV1().Pods(drydock).GetLogs(p.name, options).Stream(ctx)
		if err == nil {
			o.read(p, stream)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (o *observer) exists(p *seen) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(p.seenAt) < 2*time.Second
}

func (o *observer) read(p *seen, stream io.ReadCloser) {
	defer stream.Close() // read only
	for scanner := bufio.NewScanner(stream); scanner.Scan(); {
		l := line{raw: scanner.Text()}
		if err := json.Unmarshal(scanner.Bytes(), &l); err == nil && l.Time.Before(o.start) {
			continue // the pods of the previous test may still run
		}
		o.mu.Lock()
		// a log that is followed again starts at its beginning
		if !slices.ContainsFunc(p.lines, func(had line) bool { return had.raw == l.raw }) {
			p.lines = append(p.lines, l)
		}
		o.mu.Unlock()
	}
}

// events returns the log lines of events by the suffix of their subject, from the pods with the name prefix.
func (o *observer) events(podPrefix, subjectSuffix string) []line {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []line
	for _, p := range o.pods {
		for _, l := range p.lines {
			if strings.HasPrefix(p.name, podPrefix) && l.Message == "event" && strings.HasSuffix(l.Subject, subjectSuffix) {
				found = append(found, l)
			}
		}
	}
	return found
}

// handled reports whether any function has handled the event with the id.
func (o *observer) handled(id string) bool {
	return slices.ContainsFunc(o.events("", ""), func(l line) bool { return l.ID == id })
}

// judge checks the rules for functions that hold in every test, and shows their logs after a failure.
func (o *observer) judge(t testing.TB) {
	var log bytes.Buffer
	for _, p := range o.sorted() {
		if p.account != p.function && p.function != usersFunction {
			t.Errorf("pod %s of function %s has the account %s (I10)", p.name, p.function, p.account)
		}
		for _, l := range p.lines {
			fmt.Fprintf(&log, "%s %s\n", p.function, l.raw)
			if strings.Contains(l.raw, "forbidden") && !o.mayBeDenied {
				t.Errorf("function %s was denied something (I10): %s", p.function, l.raw)
			}
		}
	}
	t.Log("\n" + o.table())
	if t.Failed() {
		t.Logf("the functions' logs:\n%s", log.String())
	}
}

func (o *observer) sorted() []*seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	pods := []*seen{}
	for _, p := range o.pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *seen) int { return a.from.Compare(b.from) })
	return pods
}

// appeared returns the functions with a new pod since then, in the order of their first pods.
func (o *observer) appeared(since time.Time) []string {
	var names []string
	for _, p := range o.sorted() {
		if !p.from.Before(since.Truncate(time.Second)) && !slices.Contains(names, p.function) {
			names = append(names, p.function)
		}
	}
	return names
}

// latest returns the youngest pod of a function.
func (o *observer) latest(function string) string {
	name := ""
	for _, p := range o.sorted() {
		if p.function == function {
			name = p.name
		}
	}
	return name
}

// table renders which functions ran, when, for how long, and the number of their events.
func (o *observer) table() string {
	pods := o.sorted()
	if len(pods) == 0 {
		return "no function ran"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %8s %8s %7s\n", "function", "from", "for", "events")
	for _, p := range pods {
		handled := 0
		for _, l := range p.lines {
			if l.Message == "event" {
				handled++
			}
		}
		fmt.Fprintf(&b, "%-14s %7.0fs %7.0fs %7d\n", p.function, p.from.Sub(pods[0].from).Seconds(), p.until.Sub(p.from).Seconds(), handled)
	}
	return b.String()
}
