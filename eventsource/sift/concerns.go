package sift

import (
	"fmt"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// notice names a StatefulSet, the functions that must observe it, and the object state that is the reason.
type notice struct {
	ref       events.Ref
	cause     string
	functions []api.Function
}

// judges return the functions that a change of a StatefulSet concerns, one judge for each feature.
var judges = []func(operation.Change) []api.Function{resize.Concerned, idle.Concerned, cleanup.Concerned, scaling.Concerned,
	operation.OwnerConcerned}

// concernedByChange returns the functions of all features that the change concerns.
func concernedByChange(c operation.Change) []api.Function {
	var all []api.Function
	for _, judge := range judges {
		all = append(all, judge(c)...)
	}
	return all
}

// Sift returns the functions that the event concerns. It judges only the copy of the object in the event. A function that is woken
// unnecessarily costs one observation; a function that is not woken waits for the next tick. A notice without functions means that the
// event concerns none.
func Sift(e cloudevents.Event, now time.Time, retry time.Duration) (notice, error) {
	gone := e.Type() == events.SourceDelete
	kind, _ := e.Extensions()["kind"].(string)
	switch kind {
	case "StatefulSet":
		return decodeAndJudge(e, (*eventSet).reduced, func(set *appsv1.StatefulSet) notice {
			return noticeOf(set, concernedByChange(operation.Change{Set: set, Records: operation.Of(set), Now: now, Retry: retry,
				Added: e.Type() == events.SourceAdd, Gone: gone}))
		})
	case "PersistentVolumeClaim":
		return decodeAndJudge(e, (*eventClaim).reduced, func(claim *corev1.PersistentVolumeClaim) notice {
			return noticeOfLinked(claim, resize.ConcernedByClaim(claim, gone))
		})
	case "Job":
		return decodeAndJudge(e, (*eventJob).reduced, func(job *batchv1.Job) notice {
			if link, err := api.LoadLink(job); err == nil && link != nil && link.Role == api.RoleScaleHook {
				return noticeOfLinked(job, scaling.ConcernedByJob(job, gone))
			}
			return noticeOfLinked(job, resize.ConcernedByJob(job, gone))
		})
	case "Scaler":
		return decodeAndJudge(e, (*eventScaler).reduced, func(scaler *v1alpha1.Scaler) notice {
			return noticeOfScaler(scaler, scaling.ConcernedByScaler(scaler, false, gone))
		})
	case "Pod":
		return decodeAndJudge(e, (*eventPod).reduced, func(pod *corev1.Pod) notice {
			if link, err := api.LoadLink(pod); err == nil && link != nil && link.Role == api.RoleCleaner {
				return noticeOfLinked(pod, cleanup.ConcernedByPod(pod, gone))
			}
			return noticeOfLinked(pod, resize.ConcernedByPod(pod, gone))
		})
	}
	return notice{}, nil
}

func decodeAndJudge[E, T any](e cloudevents.Event, reduced func(*E) *T, decide func(*T) notice) (notice, error) {
	var object E
	var err error
	if size := len(e.Data()); size > maxObject {
		err = fmt.Errorf("the object has %d bytes, at most %d are read; the next tick checks its StatefulSet", size, maxObject)
	} else {
		err = bounded.JSON(e.Data(), &object)
	}
	if err != nil {
		return notice{}, fmt.Errorf("reading the object in event %q (%s): %w", e.ID(), e.Subject(), err)
	}
	return decide(reduced(&object)), nil
}

func noticeOf(set *appsv1.StatefulSet, concerns []api.Function) notice {
	ref := events.Ref{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion}
	return notice{ref: ref, cause: stateID(set), functions: concerns}
}

// noticeOfLinked returns the notice for an object of an operation. Its link names the StatefulSet. A link into another namespace is forged,
// and the notice is empty.
func noticeOfLinked(object metav1.Object, concerns []api.Function) notice {
	link, err := api.LoadLink(object)
	if err != nil || link == nil || link.Namespace != object.GetNamespace() || !isName(link.Set.Name) || !isName(string(link.Set.UID)) {
		return notice{}
	}
	ref := events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID, Operation: link.Operation}
	return notice{ref: ref, cause: stateID(object), functions: concerns}
}

// isName reports whether the text can be the name or the UID of an object. Users can write other text into a link or a target, and an event
// with it could not be sent.
func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// noticeOfScaler returns the notice for the StatefulSet that is the Scaler's target.
func noticeOfScaler(scaler *v1alpha1.Scaler, concerns []api.Function) notice {
	if !isName(scaler.Spec.Target) {
		return notice{}
	}
	return notice{ref: events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}, cause: stateID(scaler), functions: concerns}
}

// stateID returns an id for the object's present state. It is unique in the cluster, and becomes part of the event id.
func stateID(object metav1.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

// A sweep remembers every opted-in set until it has read all of them, and a tenant can make a set as large as 1.5 MiB. It therefore
// remembers only the fields that it needs later, whose size does not depend on the tenant.

// unmetRequest is a set whose claims must be compared with its resize request.
type unmetRequest struct {
	notice  notice
	set     *appsv1.StatefulSet // only the name, and the names of the templates
	targets map[string]api.Target
}

// unmetRequestOf returns the set's request if only a comparison with its claims can show that the request is unmet. Otherwise it returns
// nil.
func unmetRequestOf(c operation.Change) *unmetRequest {
	set := c.Set
	if !resize.ClaimsMayLag(c) {
		return nil
	}
	reduced := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	for i := range set.Spec.VolumeClaimTemplates {
		reduced.Spec.VolumeClaimTemplates = append(reduced.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: set.Spec.VolumeClaimTemplates[i].Name}})
	}
	return &unmetRequest{notice: noticeOf(set, []api.Function{api.DetectResize}), set: reduced,
		targets: world.EffectiveTargets(set, c.Records.Resize)}
}

// isUnmetBy reports whether one of the set's claims differs from the request.
func (l *unmetRequest) isUnmetBy(claims []*corev1.PersistentVolumeClaim) bool {
	for _, c := range statefulset.ClaimsOf(l.set, claims) {
		if target, named := l.targets[c.Template]; named && statefulset.NeedsChange(c.PersistentVolumeClaim, target) {
			return true
		}
	}
	return false
}

// maxObject is the length of the longest object that an event may bring, in bytes. Drydock works with no longer StatefulSet. All
// annotations of an object can have 256 KiB, and more as JSON, so a lower limit would lose the events of a resize of many claims.
const maxObject = api.MaxSet

// maxInFlight limits the objects that are decoded at the same time, in bytes of JSON. Any client in the cluster network may send events,
// and a decoded object takes several times its length.
const maxInFlight = 2 * maxObject

// skipped is the value of a field that is not decoded. Objects of events are decoded with only the fields that the judges read: pod
// templates, pods' containers and managed fields are the largest parts of objects, and no judge looks at them.
type skipped struct{}

// UnmarshalJSON ignores the value.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// eventMeta is the metadata of an object without its managed fields. A field of the outer struct hides one of the same name.
type eventMeta struct {
	metav1.ObjectMeta
	ManagedFields skipped `json:"managedFields"`
}

type eventSet struct {
	Metadata eventMeta `json:"metadata"`
	Spec     struct {
		appsv1.StatefulSetSpec
		Template skipped `json:"template"`
	} `json:"spec"`
	Status appsv1.StatefulSetStatus `json:"status"`
}

func (s *eventSet) reduced() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: s.Metadata.ObjectMeta, Spec: s.Spec.StatefulSetSpec, Status: s.Status}
}

type eventClaim struct {
	Metadata eventMeta                          `json:"metadata"`
	Spec     corev1.PersistentVolumeClaimSpec   `json:"spec"`
	Status   corev1.PersistentVolumeClaimStatus `json:"status"`
}

func (c *eventClaim) reduced() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: c.Metadata.ObjectMeta, Spec: c.Spec, Status: c.Status}
}

type eventJob struct {
	Metadata eventMeta `json:"metadata"`
	Status   struct {
		Conditions []batchv1.JobCondition `json:"conditions"`
	} `json:"status"`
}

func (j *eventJob) reduced() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: j.Metadata.ObjectMeta, Status: batchv1.JobStatus{Conditions: j.Status.Conditions}}
}

type eventPod struct {
	Metadata eventMeta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status corev1.PodStatus `json:"status"`
}

func (p *eventPod) reduced() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: p.Metadata.ObjectMeta, Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: p.Status}
}

type eventScaler struct {
	Metadata eventMeta             `json:"metadata"`
	Spec     v1alpha1.ScalerSpec   `json:"spec"`
	Status   v1alpha1.ScalerStatus `json:"status"`
}

func (s *eventScaler) reduced() *v1alpha1.Scaler {
	return &v1alpha1.Scaler{ObjectMeta: s.Metadata.ObjectMeta, Spec: s.Spec, Status: s.Status}
}
