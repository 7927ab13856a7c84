// Package release decides how to release everything that Drydock holds before it is uninstalled: held pods, sleeping sets, paused owners,
// labels and finalizers. It is pure.
package release

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Input has the facts about one StatefulSet, or about the remaining objects of a deleted set.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil if it is deleted
	// Stops, Journals and Owners are the records of operations on the set.
	Stops, Journals []*appsv1.ControllerRevision
	Owners          []Owner
	// Held are the pods of the set with a hold. Claims are the claims of the namespace if there are such pods.
	Held   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	// Holds says that no function runs any more, so that holds are removed although an operation is active.
	Holds bool
}

// Owner is a custom resource that an operation has paused, and the record of the pause.
type Owner struct {
	Record    *appsv1.ControllerRevision
	Operation string
	Set       string // of the operation
	Doc       *api.PausedOwner
	Resource  plan.Resource
	Object    *unstructured.Unstructured // nil if it is deleted
	Err       error                      // the record or the resource is unreadable
}

// Decide returns the writes to make now, and the objects that are left, each with advice. Repeating the writes is safe.
func Decide(in Input) (actions []plan.Action, left []string) {
	if why := whyNotYet(in); why != "" {
		if in.Holds {
			actions, left = releaseHolds(in)
		}
		return actions, append(left, why)
	}
	holds, left := releaseHolds(in)
	why := ""
	if in.Set != nil {
		actions, why = releaseSet(in)
	}
	if why != "" {
		left = append(left, why)
	} else {
		for _, record := range in.Stops {
			actions = append(actions, plan.Delete(plan.ControllerRevisions, record))
		}
	}
	for _, o := range in.Owners {
		resumes, problem := resume(o)
		actions = append(actions, resumes...)
		if problem != "" {
			left = append(left, problem)
		}
	}
	return append(holds, actions...), left
}

// Note returns a fact about a released set that its user should know, or "". If a user has paused the Scaler of a set, its replicas are not
// restored: the user wants none.
func Note(in Input) string {
	if in.Set == nil || statefulset.Replicas(in.Set) > 0 {
		return ""
	}
	scaler, count := "Scaler", "COUNT"
	scale, end := operation.Of(in.Set).Scale, endStop(in)
	switch paused := scale != nil && scale.Paused; {
	case end.starts > 0 || !paused && end.leaves == 0:
		return ""
	case paused:
		scaler += " " + scale.Scaler.Name
	}
	if end.leaves > 0 {
		count = strconv.Itoa(int(end.leaves))
	}
	return fmt.Sprintf("its %s was paused, so it stays at 0 replicas. Without Drydock, start it with: "+
		"kubectl scale -n %s sts %s --replicas=%s", scaler, in.Namespace, in.Name, count)
}

// whyNotYet says why the set cannot be released yet; empty if it can.
func whyNotYet(in Input) string {
	if in.Set == nil {
		if len(in.Journals) > 0 {
			return "the StatefulSet was deleted during a resize. Wait until Drydock has ended the resize" + in.heldWords()
		}
		return ""
	}
	records := operation.Of(in.Set)
	resize := records.Resize
	switch {
	case records.ResizeErr != nil:
		return records.ResizeErr.Error()
	case resize.Active():
		return fmt.Sprintf("operation %s runs, in phase %s. Wait for its end, or end it with: %s", resize.Operation, resize.Phase,
			in.abort()) + in.heldWords()
	case records.CleaningUp():
		return "a cleanup runs. Wait for its end, or end it, which keeps its claims, with: " + in.abort()
	case records.Scale.Active() && !in.Holds: // its hooks may be moving data away from members that it removes
		return "a scaling runs. Wait for its end" + ifFunctionsRun
	case in.Set.DeletionTimestamp != nil:
		return "it is being deleted. Wait until the deletion has ended"
	}
	if records.SleepErr != nil {
		return records.SleepErr.Error()
	}
	return ""
}

// abort returns the command that ends the set's operation.
func (in Input) abort() string {
	return fmt.Sprintf("kubectl drydock abort -n %s sts/%s", in.Namespace, in.Name)
}

// ifFunctionsRun ends the advice to wait.
const ifFunctionsRun = ". If Drydock's functions do not run any more, release the set with --holds"

// releaseSet wakes the set and removes its requests, and Drydock's labels and finalizers, in one patch. If it cannot do that yet, it
// returns why.
func releaseSet(in Input) (actions []plan.Action, why string) {
	sleep, end := operation.Of(in.Set).Sleep, endStop(in)
	switch {
	case sleep.Active() && sleep.OwnerStops && statefulset.Replicas(in.Set) == 0 && in.hasPausedOwner():
		return nil, "its operator must start it. Run the command again: it sets the replicas if the operator has not"
	case end.waits:
		return nil, "its pods are ending. Their claims would be deleted if the command restored whenScaled now. Run it again when they are gone"
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	if end.starts > 0 {
		plan.Set(patch, "/spec/replicas", 0, end.starts, fmt.Sprintf("replicas 0 to %d", end.starts))
	}
	if end.whenScaled != "" {
		plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, end.whenScaled, "whenScaled "+string(end.whenScaled))
	}
	patch.Unannotate(api.StopAnnotation)
	if sleep.Active() {
		patch.Unannotate(api.SleepAnnotation)
	}
	for _, key := range requests {
		patch.Unannotate(key)
	}
	patch.Unlabel(api.ManagedLabel).Unlabel(api.FinalizerLabel).RemoveFinalizer(api.CleanupFinalizer)
	return patch.Actions(), ""
}

// ending is how the stop of a set ends.
type ending struct {
	starts     int32 // the count to write; 0 if the set keeps its count
	whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType
	leaves     int32 // how many pods a paused Scaler keeps away, which nobody asks back after the release; 0 without one
	waits      bool  // the stop cannot end yet, because pods still end
}

// endStop takes the steps of scale that end the stop of the set, after the sleep has ended as idle-timeout ends it for a wake-up.
func endStop(in Input) (end ending) {
	set := leaving(in)
	for {
		stop := api.LoadStop(set)
		next := stop
		switch members.NextStopStep(set, in.Now, 0) {
		case members.StartPods:
			next = members.NextStart(set, in.Now)
			end.starts, set.Spec.Replicas = next.Replicas, &next.Replicas
		case members.NoteStart:
			next = members.Started(stop, in.Now)
		case members.RenewStop:
			next.Set.UID = set.UID
		case members.EndStop:
			end.whenScaled = members.PolicyToRestore(set)
			return end
		default:
			switch {
			case set.Annotations[api.SleepAnnotation] != "":
				delete(set.Annotations, api.SleepAnnotation)
				continue
			case !stop.Pending():
				end.waits = stop != nil
				return end
			}
			end.leaves, next = stop.Replicas, members.Started(stop, in.Now)
		}
		set.Annotations[api.StopAnnotation] = next.Encode()
	}
}

// leaving returns a copy of the set that wakes up and has left Drydock. A set that has lost its Stop gets it back from the record.
func leaving(in Input) *appsv1.StatefulSet {
	set := in.Set.DeepCopy()
	delete(set.Labels, api.ManagedLabel)
	if stored, _ := members.StoredStop(set, in.Stops); stored != nil && api.LoadStop(set) == nil && statefulset.Replicas(set) == 0 {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, api.StopAnnotation, stored.Encode())
	}
	if sleep := operation.Of(set).Sleep; sleep.Active() {
		sleep = sleep.Clone()
		if sleep.Phase != api.Waking {
			sleep.Starts = 0 // nobody has started it in this sleep
		}
		sleep.Phase, sleep.Step, sleep.WakingAt = api.Waking, "", operation.Moment(in.Now)
		if sleep.OwnerStops {
			sleep.Step = api.StartedForOwner
		}
		set.Annotations[api.SleepAnnotation] = sleep.Encode()
	}
	return set
}

// requests are the annotations that would act again when the set opts in later: it would fall asleep at once, or get a size from the past.
// The other annotations are settings and records, and stay.
var requests = []string{api.PausedAnnotation, api.SleepRequestedAnnotation, api.ResizeAnnotation, api.ResizeAppliedAnnotation,
	api.GrowToAnnotation, api.ApproveAnnotation, api.RetryAnnotation, api.RollbackAnnotation, api.AbortAnnotation}

// hasPausedOwner reports whether an owner is still paused for the set, or cannot be judged.
func (in Input) hasPausedOwner() bool {
	for _, o := range in.Owners {
		if actions, err := o.release(); err != nil || len(actions) > 0 {
			return true
		}
	}
	return false
}

// release returns the writes that resume the owner; none if it is resumed or deleted.
func (o Owner) release() ([]plan.Action, error) {
	switch {
	case o.Err != nil:
		return nil, o.Err
	case o.Object == nil:
		return nil, nil
	case o.Doc.Stopped:
		return owners.ReleaseAll(o.Resource, o.Object)
	}
	return owners.Release(o.Resource, o.Object, o.Operation, o.Set)
}

// resume restores the owner's settings, and then deletes the record.
func resume(o Owner) (actions []plan.Action, problem string) {
	actions, err := o.release()
	if err != nil {
		return nil, fmt.Sprintf("its owner stays paused: %v", err)
	}
	return append(actions, plan.Delete(plan.ControllerRevisions, o.Record)), ""
}

// releaseHolds removes the hold from each pod whose member would start on its own data. It returns the other pods in left, with advice.
func releaseHolds(in Input) (actions []plan.Action, left []string) {
	for _, pod := range in.Held {
		switch unbound := in.unboundClaim(pod); {
		case unbound != "":
			left = append(left, fmt.Sprintf("pod %s stays held, because claim %s is not bound: the member would start on an empty volume. "+
				"Install Drydock again and wait until its operation has ended", pod.Name, unbound))
		case resources.IsLockPod(pod) && pod.DeletionTimestamp == nil:
			actions = append(actions, plan.Delete(plan.Pods, pod))
			left = append(left, fmt.Sprintf("pod %s, which reserves the name of a member, is being deleted. Run the command again", pod.Name))
		default:
			patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
			if pod.DeletionTimestamp == nil { // the pod was never stopped and runs
				patch.Unlink()
			}
			actions = append(actions, patch.Actions()...)
		}
	}
	return actions, left
}

// unboundClaim returns an unbound claim of the pod's member, which must not start without it; empty if there is none. A pod that was never
// stopped has its claims. A member beyond the set's replicas, or of a deleted set, does not start.
func (in Input) unboundClaim(pod *corev1.Pod) string {
	if in.Set == nil || pod.DeletionTimestamp == nil && !resources.IsLockPod(pod) {
		return ""
	}
	ordinal, ok := statefulset.ParsePodName(in.Set, pod.Name)
	if span := statefulset.Span(in.Set); !ok || ordinal < span.Start || ordinal >= span.End {
		return "" // the set starts no such member
	}
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(in.Set, template.Name, ordinal)
		if !in.isBound(name) {
			return name
		}
	}
	return ""
}

func (in Input) isBound(name string) bool {
	for _, claim := range in.Claims {
		if claim.Name == name {
			return claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound
		}
	}
	return false
}

// heldWords adds the number of held pods to the message about a set that cannot be released yet.
func (in Input) heldWords() string {
	if len(in.Held) == 0 || in.Holds {
		return ""
	}
	pods := fmt.Sprintf("%d pods", len(in.Held))
	if len(in.Held) == 1 {
		pods = "1 pod"
	}
	return fmt.Sprintf(". It holds %s. If Drydock's functions do not run any more, release what it holds with --holds", pods)
}
