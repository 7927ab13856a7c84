package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// WatchEvent is one watch event of a real cluster. Version is the resourceVersion of the object. All kinds share one counter.
type WatchEvent struct {
	Version int64
	Gone    bool
	Object  runtime.Object
}

// WatchEventOf converts an object of a watch.
func WatchEventOf(o runtime.Object, gone bool) (WatchEvent, error) {
	known, ok := o.(object)
	if !ok {
		return WatchEvent{}, fmt.Errorf("the model has no objects of type %T", o)
	}
	version, err := strconv.ParseInt(known.GetResourceVersion(), 10, 64)
	return WatchEvent{Version: version, Gone: gone, Object: o}, err
}

// TraceOf converts watch events to a trace, from the moment when the resize begins to move members. It replaces UIDs and generated names
// by the model's.
func TraceOf(seen []WatchEvent) (Trace, error) {
	seen = slices.Clone(seen)
	slices.SortStableFunc(seen, func(a, b WatchEvent) int { return int(a.Version - b.Version) })
	r := &recorder{uids: map[types.UID]string{}, made: map[string]int{}, pods: map[types.UID]string{}, state: Projection{}}
	for _, s := range seen {
		if record := recordOf(s.Object); record != nil {
			r.operation = record.Operation
		}
	}
	var trace Trace
	for _, s := range seen {
		change, known := r.see(s)
		if !known || r.state[change.Object] == change.State {
			continue
		}
		r.state = r.state.after(change)
		if record := recordOf(s.Object); trace.Begin == nil && record != nil && record.Phase == api.Moving {
			trace.Begin = maps.Clone(r.state)
		} else if trace.Begin != nil {
			trace.Changes = append(trace.Changes, change)
		}
	}
	if trace.Begin == nil {
		return trace, fmt.Errorf("none of the %d watch events shows a resize that moves members", len(seen))
	}
	return trace, nil
}

func recordOf(o runtime.Object) *api.Resize {
	set, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	record, _ := api.LoadResize(set)
	return record
}

type recorder struct {
	uids      map[types.UID]string
	made      map[string]int       // number of objects that a name has had
	pods      map[types.UID]string // pods of Jobs: their names in the model
	operation string
	state     Projection
}

// see converts the event to a change. It returns false for objects that the model does not have.
func (r *recorder) see(s WatchEvent) (Change, bool) {
	o := s.Object.DeepCopyObject().(object)
	kind, ours := kindOf(o)
	if !ours {
		return Change{}, false
	}
	state := describe(o)
	r.name(kind, o)
	change := Change{Object: entryName(kind, o.GetName(), r.operation)}
	if !s.Gone {
		change.State = withoutOperation(r.rename(state), r.operation)
	}
	return change, true
}

// kindOf returns the kind, and whether the model has the object. Of ControllerRevisions it has only Drydock's.
func kindOf(o object) (plan.Resource, bool) {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return plan.StatefulSets, true
	case *appsv1.ControllerRevision:
		return plan.ControllerRevisions, api.RevisionLink(o) != nil
	case *corev1.PersistentVolumeClaim:
		return plan.Claims, true
	case *corev1.PersistentVolume:
		return plan.Volumes, true
	case *batchv1.Job:
		return plan.Jobs, true
	case *corev1.Pod:
		return plan.Pods, true
	}
	return "", false
}

// name sets the name that the object has in the model, and stores its UID in the model.
func (r *recorder) name(kind plan.Resource, o object) {
	if owner := metav1.GetControllerOf(o); kind == plan.Pods && owner != nil && owner.Kind == "Job" {
		if r.pods[o.GetUID()] == "" {
			r.pods[o.GetUID()] = r.podName(owner.Name)
		}
		o.SetName(r.pods[o.GetUID()])
	}
	if kind == plan.Volumes {
		o.SetName(r.rename(o.GetName()))
		return
	}
	if _, known := r.uids[o.GetUID()]; !known {
		of := string(kind) + "/" + o.GetName()
		r.made[of]++
		r.uids[o.GetUID()] = fmt.Sprintf("%s.%d", o.GetName(), r.made[of])
	}
}

// podName returns the first free pod name of the Job.
func (r *recorder) podName(job string) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", job, n)
		if _, taken := r.state[entryName(plan.Pods, name, r.operation)]; !taken {
			return name
		}
	}
}

// rename replaces UIDs by the model's.
func (r *recorder) rename(text string) string {
	for uid, name := range r.uids {
		text = strings.ReplaceAll(text, string(uid), name)
	}
	return text
}
