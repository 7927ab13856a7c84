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
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
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

// describe returns the facts about an object that the model shares with a real cluster: the facts that controllers, kubelets and the
// functions act on. It ignores annotations, sizes and times. It also ignores the set's status, which the controller computes from a cache.
func describe(o object) string {
	var words []string
	add := func(holds bool, format string, args ...any) {
		if holds {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		describeSet(o, add)
	case *appsv1.ControllerRevision:
		manifest, err := api.LoadManifest(o)
		add(err == nil && manifest != nil, "orders the set")
	case *corev1.PersistentVolumeClaim:
		add(true, "%s", o.Status.Phase)
		add(o.Spec.VolumeName != "", "on %s", o.Spec.VolumeName)
	case *corev1.PersistentVolume:
		describeVolume(o, add)
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			add(c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed, "%s", c.Type)
		}
	case *corev1.Pod:
		describePod(o, add)
	}
	add(o.GetDeletionTimestamp() != nil, "deleting")
	for _, finalizer := range o.GetFinalizers() {
		add(slices.Contains(finalizersOfModel, finalizer), "+%s", finalizer)
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		add(true, "of %s", owner.UID)
	}
	if len(words) == 0 {
		return "exists"
	}
	return strings.Join(words, " ")
}

// finalizersOfModel lists the finalizers that the model knows.
var finalizersOfModel = []string{protection, orphan, api.HoldFinalizer, api.FreezeFinalizer, batchv1.JobTrackingFinalizer}

type addWord = func(holds bool, format string, args ...any)

func describeSet(set *appsv1.StatefulSet, add addWord) {
	add(true, "replicas %d", statefulset.Replicas(set))
	record, err := api.LoadResize(set)
	if add(err != nil, "%v", err); err != nil || record == nil {
		return
	}
	add(true, "%s", record.Phase)
	for _, m := range record.Members {
		add(true, "%d:%s/%d", m.Ordinal, m.Phase, m.Attempt)
	}
}

func describeVolume(v *corev1.PersistentVolume, add addWord) {
	if ref := v.Spec.ClaimRef; ref != nil {
		uid := string(ref.UID)
		if uid == "" {
			uid = ref.Name + " without UID"
		}
		add(true, "for %s", uid)
	}
	phase := v.Status.Phase
	if phase == corev1.VolumePending { // the initial phase
		phase = ""
	}
	add(phase != "", "%s", phase)
	add(true, "%s", v.Spec.PersistentVolumeReclaimPolicy)
	claim, err := api.LoadClaim(v)
	add(err == nil && claim != nil, "with a claim to come")
}

func describePod(p *corev1.Pod, add addWord) {
	add(p.Spec.NodeName != "", "placed")
	add(true, "%s", p.Status.Phase)
	add(statefulset.PodReady(p) && p.Labels[batchv1.JobNameLabel] == "", "ready")
	add(p.Annotations[moverreport.SignalAnnotation] != "", "told to make its final pass")
	for _, c := range p.Status.InitContainerStatuses {
		ended := c.State.Terminated != nil && !resize.IsPin(p)
		add(ended && p.DeletionTimestamp == nil, "%s ended with %d", c.Name, exitOf(c))
		add(ended && p.DeletionTimestamp != nil, "%s ended", c.Name) // the kubelet ends it; the exit code may vary
	}
	add(resize.IsPin(p) && p.Status.Phase == corev1.PodRunning, "pins")
	add(p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 0) == 0, "unmounted")
}

func exitOf(c corev1.ContainerStatus) int32 {
	if c.State.Terminated == nil {
		return 0
	}
	return c.State.Terminated.ExitCode
}

// projection returns the description of every object.
func (w *World) projection(operation string) Projection {
	seen := Projection{}
	for k, e := range w.objects {
		seen[entryName(k.kind, k.name, operation)] = withoutOperation(describe(e.object), operation)
	}
	return seen
}

// Projection maps each object to its description.
type Projection map[string]string

func entryName(kind plan.Resource, name, operation string) string {
	return string(kind) + "/" + withoutOperation(name, operation)
}

// withoutOperation replaces the operation's id, which depends on the UID of the set.
func withoutOperation(text, operation string) string {
	if operation == "" {
		return text
	}
	return strings.ReplaceAll(text, operation, "OPERATION")
}
