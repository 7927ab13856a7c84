package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Change describes a StatefulSet that an event or the sweep reports. The Concerned function of each feature returns the functions that the
// change concerns. It judges the set alone and reads nothing else. A needless event costs little. A missing one delays the operation until
// the next tick.
type Change struct {
	Set     *appsv1.StatefulSet
	Records Records
	Now     time.Time
	// Added is true if the event source sees the set for the first time.
	Added bool
	// Gone is true if the set was deleted, or lost the label that the event source watches.
	Gone bool
	// Swept is true if the tick reports the set, because time has passed or an event was lost.
	Swept bool
	// PreviousSweep is the time of the previous sweep; zero if it is unknown.
	PreviousSweep time.Time
	// Retry is the pause after a failed sleep.
	Retry time.Duration
}

// JustGivenBack reports whether a set with an owner has its replicas back, but no ready pod yet. Its owner may still be paused.
func JustGivenBack(set *appsv1.StatefulSet, record Record) bool {
	return statefulset.Controller(set) != nil && NoLongerStops(set, record) && statefulset.SpecObserved(set) && set.Status.ReadyReplicas == 0
}

// OwnerConcerned returns pause-owner if the owner's operator may have changed the metadata of a set: it removed the label that the event
// source watches, or copied the record of its pause to the set. During an operation, the operator would copy the record again.
// A record that says why an owner stays paused concerns it, too, at each tick: it removes the text when the pause is over.
func OwnerConcerned(c Change) []api.Function {
	reports := func(r Record) bool { return r.Head().OwnerProblem != "" }
	if c.Swept && slices.ContainsFunc(c.Records.All(), reports) {
		return []api.Function{api.PauseOwner}
	}
	if statefulset.Controller(c.Set) == nil || c.Set.DeletionTimestamp != nil || !statefulset.Managed(c.Set) {
		return nil
	}
	if _, copied := c.Set.Annotations[api.OwnerPausedAnnotation]; c.Gone || copied && !c.Records.Resizing() && !c.Records.Sleeping() {
		return []api.Function{api.PauseOwner}
	}
	return nil
}

// abortWithdrawn is the value of AbortAnnotation that the policy for edited manifests writes (config/apply/templates.yaml).
const abortWithdrawn = "withdrawn"

// AbortWords returns the beginning of a message about an abort: that an applied manifest withdrew the request, that the set has opted out,
// or nothing.
func AbortWords(set *appsv1.StatefulSet) string {
	switch {
	case set.Annotations[api.AbortAnnotation] == abortWithdrawn:
		return "withdrawn by an applied manifest; "
	case !hasAbort(set) && !statefulset.Managed(set):
		return fmt.Sprintf("the StatefulSet lost the label %s=true; ", api.ManagedLabel)
	}
	return ""
}

// Aborted reports whether the user requests the end of the set's operations: with the annotation abort, or by opting out.
func Aborted(set *appsv1.StatefulSet) bool { return hasAbort(set) || !statefulset.Managed(set) }

func hasAbort(set *appsv1.StatefulSet) bool {
	_, abort := set.Annotations[api.AbortAnnotation]
	return abort
}

// Within reports whether the moment is less than the period away. A moment in the future comes from a clock that was ahead, and must not
// make anything wait until then.
func Within(now, moment time.Time, period time.Duration) bool {
	age := now.Sub(moment)
	return -period < age && age < period
}

// Due reports whether the sweep that reports the change checks something of this key, which is checked once in a period.
func (c Change) Due(key string, every time.Duration) bool {
	return Due(key, every, c.PreviousSweep, c.Now)
}

// Due reports whether the minute of the key has passed since the previous sweep. The key determines the minute within the period. This
// spreads many keys over the period and stores nothing. Ticks may be more than a minute apart (DRYDOCK_TICK), and a little early or late.
func Due(key string, every time.Duration, previousSweep, now time.Time) bool {
	period := int64(every / time.Minute)
	if period <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(key)) // writing to a hash never fails
	last := minute(now)
	first := last
	if !previousSweep.IsZero() && minute(previousSweep) <= last { // a clock that was set back makes previousSweep later than now
		first = max(minute(previousSweep), last-period) + 1
	}
	for m := first; m <= last; m++ {
		if m%period == int64(h.Sum32())%period {
			return true
		}
	}
	return false
}

// minute returns the number of the nearest minute.
func minute(t time.Time) int64 { return t.Add(time.Minute/2).Unix() / 60 }

// A refused request is judged again although the set has not changed: with each tick while the refusal is recent, later every ten minutes.
const (
	recentRefusal   = time.Hour
	RefusalInterval = 10 * time.Minute
)

// RefusalDue reports whether this tick judges the refused request again, because a cause outside the set may be gone.
func RefusalDue(c Change, refused *api.Header) bool {
	return c.Swept && (IsRecentRefusal(refused, c.Now) || c.Due(string(c.Set.UID), RefusalInterval))
}

// IsRecentRefusal reports whether the request was refused within the last hour.
func IsRecentRefusal(refused *api.Header, now time.Time) bool {
	return refused.Finished != nil && now.Sub(refused.Finished.Time) < recentRefusal
}

// RefusalOutdated reports whether the set has changed since its request was refused.
func RefusalOutdated(set *appsv1.StatefulSet, refused *api.Header) bool {
	return refused.RefusalDigest != RefusalDigest(set)
}

// RefusalDigest returns a digest of what users and owners have decided about the set, as far as it can lead to a refusal. A refusal with
// another digest is out of date. Counts and whenScaled are left out, because Drydock writes them: its own stop must not make a refusal
// look out of date. The events of sets have no pod template, so its revision stands for it.
func RefusalDigest(set *appsv1.StatefulSet) string {
	h := sha256.New()
	request, _ := api.RequestOf(set)
	fmt.Fprintf(h, "%q ", request)
	for _, key := range []string{api.ResizeMethodAnnotation, api.ResizeParallelismAnnotation, api.StrategyAnnotation,
		api.CutoverAnnotation, api.MaxStopAnnotation, api.FirstPassAnnotation, api.MemberCheckAnnotation, api.BeforeMemberAnnotation,
		api.AfterMemberAnnotation, api.MoverAnnotation, api.OwnerPolicyAnnotation, api.ActivityProbeAnnotation} {
		fmt.Fprintf(h, "%q ", set.Annotations[key])
	}
	spec := set.Spec
	spec.Template, spec.Replicas = corev1.PodTemplateSpec{}, nil
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: policy.WhenDeleted}
	}
	spec.VolumeClaimTemplates = slices.Clone(spec.VolumeClaimTemplates)
	for i := range spec.VolumeClaimTemplates { // the encodings of the API server differ in these
		spec.VolumeClaimTemplates[i].TypeMeta, spec.VolumeClaimTemplates[i].Status = metav1.TypeMeta{}, corev1.PersistentVolumeClaimStatus{}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // plain fields only
	}
	fmt.Fprintf(h, "%s %q %q %q", text, set.Status.UpdateRevision, statefulset.ForeignFinalizers(set), set.Labels[api.GroupLabel])
	if owner := statefulset.Controller(set); owner != nil {
		fmt.Fprintf(h, " %q", owner.UID)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Backoff returns the wait before the next try after so many failures in a row. The first failure is followed by the first wait, and each
// further failure doubles it, up to the limit. A first wait above the limit stays as it is.
func Backoff(first, limit time.Duration, failures int) time.Duration {
	wait := first
	for ; failures > 1 && wait < limit; failures-- {
		wait = min(2*wait, limit)
	}
	return wait
}
