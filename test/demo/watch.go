package main

import (
	"context"
	"fmt"
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
