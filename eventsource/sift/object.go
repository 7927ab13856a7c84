package sift

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

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
