package main

import (
	"context"
	"fmt"
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
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/demo/show"
)

// audience watches the cluster during the resize, shows what it sees, and remembers what the verdict needs.
type audience struct {
	cluster   *cluster
	namespace string
	screen    *show.Screen
	clock     *clock
	downtime  *downtime
	progress  *progress
	calls     *calls
	raw       *gatherer
	finished  chan *api.Resize // gets the terminal status

	// What only the watches use, each its own.
	last     *api.Resize
	uid      types.UID       // of the set
	followed map[string]bool // containers of movers, by the pod's UID and their name
	pods     map[string]types.UID
	ends     sync.Once // the first terminal status ends the scene
}

func newAudience(c *cluster, namespace string, screen *show.Screen, clock *clock) *audience {
	a := &audience{
		cluster: c, namespace: namespace, screen: screen, clock: clock, downtime: newDowntime(),
		progress: newProgress(screen), finished: make(chan *api.Resize, 1),
		followed: map[string]bool{}, pods: map[string]types.UID{},
	}
	a.calls = &calls{screen: screen, fail: a.onFailedCalls}
	a.raw = &gatherer{tell: func(at time.Time, text string) { a.print(show.Dim, at, "event", text) }}
	return a
}

// watch looks on until the context ends, and returns once it has seen what is there now.
func (a *audience) watch(ctx context.Context) error {
	pods := follow(ctx, a.cluster.CoreV1().RESTClient(), "pods", a.namespace, &corev1.Pod{}, func(object any, gone bool) {
		if pod, ok := object.(*corev1.Pod); ok {
			a.onPod(ctx, pod, gone)
		}
	})
	sets := follow(ctx, a.cluster.AppsV1().RESTClient(), "statefulsets", a.namespace, &appsv1.StatefulSet{}, func(object any, gone bool) {
		if set, ok := object.(*appsv1.StatefulSet); ok && set.Name == setName {
			a.onSet(set, gone)
		}
	})
	if !cache.WaitForCacheSync(ctx.Done(), pods, sets) {
		return fmt.Errorf("watching pods and StatefulSets: %w", context.Cause(ctx))
	}
	return nil
}

// follow calls for each change of the objects, one after the other.
func follow(ctx context.Context, client rest.Interface, resource, namespace string, kind runtime.Object, call func(object any, gone bool)) cache.InformerSynced {
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

func (a *audience) onPod(ctx context.Context, pod *corev1.Pod, gone bool) {
	if pod.Labels["app"] == setName {
		a.onReplica(pod, gone)
		return
	}
	link, err := api.LoadLink(pod)
	if err != nil || link == nil || link.Role != api.RoleMover || link.Member == nil || gone {
		return
	}
	for container, does := range map[string]string{moverreport.FirstContainer: "copies beside", moverreport.FinalContainer: "waits beside"} {
		key := string(pod.UID) + container
		if a.followed[key] || !started(pod, container) {
			continue
		}
		a.followed[key] = true
		a.tell(show.Plain, time.Now(), "pod", "%s %s %s", pod.Name, does, replica(*link.Member))
		go a.progress.read(ctx, a.cluster, pod, container, replica(*link.Member))
	}
}

func (a *audience) onReplica(pod *corev1.Pod, gone bool) {
	now := time.Now()
	if a.pods[pod.Name] != pod.UID {
		a.pods[pod.Name] = pod.UID
		a.tell(show.Dim, now, "pod", "%s is created", pod.Name)
	}
	up := ready(pod) && !gone
	switch changed, was := a.downtime.observe(pod.Name, up, now); {
	case changed && up:
		a.tell(show.Good, now, "pod", "%s is ready again after %.1f s", pod.Name, was.Seconds())
	case changed:
		a.tell(show.Plain, now, "pod", "%s is going down", pod.Name)
	}
}

func (a *audience) onSet(set *appsv1.StatefulSet, gone bool) {
	now := time.Now()
	if gone {
		a.tell(show.Plain, now, "set", "%s is deleted, its pods and claims are not", set.Name)
		return
	}
	if a.uid != "" && a.uid != set.UID {
		a.tell(show.Plain, now, "set", "%s is created around its pods with the new template (%s)", set.Name, templateSize(set))
	}
	a.uid = set.UID
	status, err := api.LoadResize(set)
	if err != nil {
		a.tell(show.Bad, now, "status", "%v", err)
		return
	}
	if status == nil {
		return
	}
	for _, line := range changes(a.last, status) {
		a.tell(line.style, now, line.what, "%s", line.text)
	}
	a.progress.settle(status)
	a.last = status
	if status.Phase.Terminal() {
		a.ends.Do(func() { a.finished <- status })
	}
}

// tell prints a line, after the raw events that came before it.
func (a *audience) tell(style show.Style, at time.Time, what, format string, args ...any) {
	a.raw.flush()
	a.print(style, at, what, fmt.Sprintf(format, args...))
}

// print prints a line with its time since the request; before the request and after the end nothing is worth a line.
func (a *audience) print(style show.Style, at time.Time, what, text string) {
	if offset, runs := a.clock.since(at); runs {
		a.screen.Line(style, "%7.1fs  %-5s  %s", offset.Seconds(), what, text)
	}
}

// change is a line about a status that changed.
type change struct {
	style show.Style
	what  string
	text  string
}

// changes says what is new in a status.
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
