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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"drydock.dev/shared/api"
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
	finished  chan *api.Status // gets the terminal status

	last *api.Status  // only the watch of the set uses it
	uid  string       // likewise
	ends sync.Once    // the first terminal status ends the scene
	pods sync.WaitGroup // followers of movers
}

func newAudience(c *cluster, namespace string, screen *show.Screen, clock *clock) *audience {
	return &audience{
		cluster: c, namespace: namespace, screen: screen, clock: clock, downtime: newDowntime(),
		progress: newProgress(screen), finished: make(chan *api.Status, 1),
	}
}

// watch looks on until the context ends, and returns once it has seen what is there now.
func (a *audience) watch(ctx context.Context) error {
	followed := map[string]bool{}
	pods := follow(ctx, a.cluster.CoreV1().RESTClient(), "pods", a.namespace, &corev1.Pod{}, func(object any, gone bool) {
		if pod, ok := object.(*corev1.Pod); ok {
			a.onPod(ctx, pod, gone, followed)
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

func (a *audience) onPod(ctx context.Context, pod *corev1.Pod, gone bool, followed map[string]bool) {
	now := time.Now()
	if pod.Labels["app"] == setName {
		switch changed, was := a.downtime.observe(pod.Name, ready(pod) && !gone, now); {
		case changed && was > 0:
			a.tell(show.Good, now, "pod", "%s is ready again after %.1f s", pod.Name, was.Seconds())
		case changed && !ready(pod):
			a.tell(show.Plain, now, "pod", "%s is going down", pod.Name)
		}
		return
	}
	link, err := api.LoadLink(pod)
	if err != nil || link == nil || link.Role != api.RoleMover || gone || followed[string(pod.UID)] || !started(pod) {
		return
	}
	followed[string(pod.UID)] = true
	a.tell(show.Dim, now, "pod", "%s copies %s", pod.Name, link.Claim)
	a.pods.Go(func() { a.progress.read(ctx, a.cluster, pod, link.Claim) })
}

func (a *audience) onSet(set *appsv1.StatefulSet, gone bool) {
	now := time.Now()
	switch uid := string(set.UID); {
	case gone:
		a.tell(show.Plain, now, "set", "%s is deleted, its pods and claims are not", set.Name)
		return
	case a.uid != "" && a.uid != uid:
		a.tell(show.Plain, now, "set", "%s is created with the new template (%s), at %d replicas", set.Name, templateSize(set), *set.Spec.Replicas)
		a.uid = uid
	case a.uid == "":
		a.uid = uid
	}
	status, err := api.LoadStatus(set)
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

// tell prints a line with its time since the request; before the request nothing is worth a line.
func (a *audience) tell(style show.Style, at time.Time, what, format string, args ...any) {
	if offset, begun := a.clock.since(at); begun {
		a.screen.Line(style, "%7.1fs  %-6s %s", offset.Seconds(), what, fmt.Sprintf(format, args...))
	}
}

// change is a line about a status that changed.
type change struct {
	style show.Style
	what  string
	text  string
}

// changes says what is new in a status.
func changes(before, after *api.Status) []change {
	if before == nil || before.Operation != after.Operation {
		before = &api.Status{}
	}
	var lines []change
	if before.Phase != after.Phase {
		style := show.Bold
		if after.Phase == api.Failed || after.Phase == api.Refused || after.Phase == api.RollingBack {
			style = show.Bad
		}
		lines = append(lines, change{style, "phase", fmt.Sprintf("%s: %s", after.Phase, after.Message)})
	}
	for _, claim := range after.Claims {
		is, was := claim.Phase, api.ClaimPhase("")
		if earlier := before.Claim(claim.Name); earlier != nil {
			was = earlier.Phase
		}
		if was != "" && is != was {
			lines = append(lines, change{show.Plain, "claim", fmt.Sprintf("%s %s → %s", claim.Name, was, is)})
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
