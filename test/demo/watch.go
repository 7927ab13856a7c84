package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/demo/show"
)

// observer watches the cluster during the resize, prints the changes, and records the data for the verdict.
type observer struct {
	cluster   *cluster
	namespace string
	screen    *show.Screen
	clock     *clock
	downtime  *downtime
	progress  *progress
	calls     *calls
	raw       *eventBatch
	finished  chan *api.Resize // receives the terminal record

	// Each field below is used by one watch only.
	last     *api.Resize
	uid      types.UID       // of the set
	followed map[string]bool // containers of movers, by the pod's UID and their name
	pods     map[string]types.UID
	ends     sync.Once // the first terminal record ends the wait
}

func newObserver(c *cluster, namespace string, screen *show.Screen, clock *clock) *observer {
	o := &observer{
		cluster: c, namespace: namespace, screen: screen, clock: clock, downtime: newDowntime(),
		progress: newProgress(screen), finished: make(chan *api.Resize, 1),
		followed: map[string]bool{}, pods: map[string]types.UID{},
	}
	o.calls = &calls{screen: screen, fail: o.onFailedCalls}
	o.raw = &eventBatch{print: func(at time.Time, text string) { o.print(show.Dim, at, "event", text) }}
	return o
}

// watch starts the watches, which run until the context ends. It returns after they have listed the present objects.
func (o *observer) watch(ctx context.Context) error {
	pods := follow(ctx, o.cluster.CoreV1().RESTClient(), "pods", o.namespace, &corev1.Pod{}, func(object any, gone bool) {
		if pod, ok := object.(*corev1.Pod); ok {
			o.onPod(ctx, pod, gone)
		}
	})
	sets := follow(ctx, o.cluster.AppsV1().RESTClient(), "statefulsets", o.namespace, &appsv1.StatefulSet{}, func(object any, gone bool) {
		if set, ok := object.(*appsv1.StatefulSet); ok && set.Name == setName {
			o.onSet(set, gone)
		}
	})
	if !cache.WaitForCacheSync(ctx.Done(), pods, sets) {
		return fmt.Errorf("watching pods and StatefulSets: %w", context.Cause(ctx))
	}
	return nil
}

// follow calls the function for each change of the objects, one at a time.
func follow(ctx context.Context, client rest.Interface, resource, namespace string, kind runtime.Object,
	call func(object any, gone bool),
) cache.InformerSynced {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, resource, namespace, fields.Everything()),
		ObjectType:    kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { call(object, false) },
			UpdateFunc: func(_, object any) { call(object, false) },
			DeleteFunc: func(object any) {
				if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = missed.Obj
				}
				call(object, true)
			},
		},
	})
	go informer.RunWithContext(ctx)
	return informer.HasSynced
}

func (o *observer) onPod(ctx context.Context, pod *corev1.Pod, gone bool) {
	if pod.Labels["app"] == setName {
		o.onReplica(pod, gone)
		return
	}
	link, err := api.LoadLink(pod)
	if err != nil || link == nil || link.Role != api.RoleMover || link.Member == nil || gone {
		return
	}
	for container, does := range map[string]string{moverreport.FirstContainer: "copies beside", moverreport.FinalContainer: "waits beside"} {
		key := string(pod.UID) + container
		if o.followed[key] || !started(pod, container) {
			continue
		}
		o.followed[key] = true
		o.report(show.Plain, time.Now(), "pod", "%s %s %s", pod.Name, does, replica(*link.Member))
		go o.progress.read(ctx, o.cluster, pod, container, replica(*link.Member))
	}
}

func (o *observer) onReplica(pod *corev1.Pod, gone bool) {
	now := time.Now()
	if o.pods[pod.Name] != pod.UID {
		o.pods[pod.Name] = pod.UID
		o.report(show.Dim, now, "pod", "%s is created", pod.Name)
	}
	up := ready(pod) && !gone
	switch changed, length := o.downtime.observe(pod.Name, up, now); {
	case changed && up:
		o.report(show.Good, now, "pod", "%s is ready again after %.1f s", pod.Name, length.Seconds())
	case changed:
		o.report(show.Plain, now, "pod", "%s is going down", pod.Name)
	}
}

func (o *observer) onSet(set *appsv1.StatefulSet, gone bool) {
	now := time.Now()
	if gone {
		o.report(show.Plain, now, "set", "%s is deleted; its pods and claims remain", set.Name)
		return
	}
	if o.uid != "" && o.uid != set.UID {
		o.report(show.Plain, now, "set", "%s is created again with the new template (%s); its pods remain", set.Name, templateSize(set))
	}
	o.uid = set.UID
	status, err := api.LoadResize(set)
	if err != nil {
		o.report(show.Bad, now, "status", "%v", err)
		return
	}
	if status == nil {
		return
	}
	for _, line := range changes(o.last, status) {
		o.report(line.style, now, line.what, "%s", line.text)
	}
	o.progress.applyRecord(status)
	o.last = status
	if status.Phase.Terminal() {
		o.ends.Do(func() { o.finished <- status })
	}
}

// change is one printed line about a change of the record.
type change struct {
	style show.Style
	what  string
	text  string
}

// changes compares two versions of the record and returns a line for each difference.
func changes(before, after *api.Resize) []change {
	if before == nil || before.Operation != after.Operation {
		before = &api.Resize{}
	}
	var lines []change
	if before.Phase != after.Phase {
		style := show.Bold
		if after.Phase == api.Failed || after.Phase == api.Refused || after.Phase == api.Reverting {
			style = show.Bad
		}
		lines = append(lines, change{style, "phase", fmt.Sprintf("%s: %s", after.Phase, after.Message)})
	}
	for _, member := range after.Members {
		earlier := before.Member(member.Ordinal)
		if earlier != nil && earlier.Phase != member.Phase {
			lines = append(lines, change{show.Plain, "step", fmt.Sprintf("%s %s → %s", replica(member.Ordinal), earlier.Phase, member.Phase)})
		}
	}
	return lines
}

func templateSize(set *appsv1.StatefulSet) string {
	for _, t := range set.Spec.VolumeClaimTemplates {
		if t.Name == templateName {
			return t.Spec.Resources.Requests.Storage().String()
		}
	}
	return "no template " + templateName
}

// onEvent prints an event of the demo's namespace, or a tick.
func (o *observer) onEvent(p brokerEvent) {
	ours := strings.Contains(p.Subject, "/namespaces/"+o.namespace+"/")
	switch {
	case p.isRaw() && ours:
		o.raw.add(p)
	case p.Type == events.Tick:
		o.report(show.Dim, p.Time, "event", "tick")
	case ours:
		o.report(show.Accent, p.Time, "event", "%-18s %s by %s", p.kind(), p.object(), p.sender())
	}
}

// report prints a line after the raw events that preceded it.
func (o *observer) report(style show.Style, at time.Time, what, format string, args ...any) {
	o.raw.flush()
	o.print(style, at, what, fmt.Sprintf(format, args...))
}

// print prints a line with the time since the request. It prints nothing before the request and after the end.
func (o *observer) print(style show.Style, at time.Time, what, text string) {
	if offset, runs := o.clock.since(at); runs {
		o.screen.Line(style, "%7.1fs  %-5s  %s", offset.Seconds(), what, text)
	}
}

// progress shows one bar for each member. The movers' logs advance the bar during a copy; the record completes it.
type progress struct {
	screen *show.Screen
	mu     sync.Mutex
	bars   map[string]show.Bar
	done   map[string]api.MemberPhase // phases of copied members: for them the record is newer than the mover's log
}

func newProgress(screen *show.Screen) *progress {
	return &progress{screen: screen, bars: map[string]show.Bar{}, done: map[string]api.MemberPhase{}}
}

// read advances the member's bar from the log of a mover's container until the container ends. Unreadable progress is ignored:
// the bar then does not move.
func (p *progress) read(ctx context.Context, c *cluster, pod *corev1.Pod, container, member string) {
	stream, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close() // read only
	p.readLines(stream, member)
}

func (p *progress) readLines(lines io.Reader, member string) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var line moverreport.Progress
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Phase != "" && line.BytesTotal > 0 {
			p.move(member, show.Bar{Name: member, Note: passNote(line), Done: line.BytesDone, Total: line.BytesTotal})
		}
	}
}

// passNote returns the pass and the phase of the mover.
func passNote(line moverreport.Progress) string {
	if line.Pass > 0 {
		return fmt.Sprintf("pass %d: %s", line.Pass, line.Phase)
	}
	return fmt.Sprintf("final pass: %s", line.Phase)
}

func (p *progress) move(member string, bar show.Bar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[member] != "" {
		return
	}
	p.bars[member] = bar
	p.screen.Move(bar)
}

// applyRecord updates the bars of copied members from the record.
func (p *progress) applyRecord(record *api.Resize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, member := range record.Members {
		name := replica(member.Ordinal)
		switch member.Phase {
		case api.MemberSwapping, api.MemberStarting, api.MemberMoved:
		default:
			delete(p.done, name) // the member may be copied again
			continue
		}
		if p.done[name] == member.Phase {
			continue
		}
		p.done[name] = member.Phase
		total := p.bars[name].Total
		for _, move := range member.Claims {
			total = max(total, move.BytesTotal)
		}
		bar := show.Bar{Name: name, Note: strings.ToLower(string(member.Phase)), Done: total, Total: total}
		p.bars[name] = bar
		p.screen.Move(bar)
	}
}

// started reports whether a mover's container has run and therefore has a log.
func started(pod *corev1.Pod, container string) bool {
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == container {
			return s.State.Running != nil || s.State.Terminated != nil
		}
	}
	return false
}
