package api

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sleep is the record of a set's latest sleep, from the decision to the end of the wake-up. Its request is why the set sleeps.
type Sleep struct {
	Header
	// Replicas is the count that the set had before; it comes back when the set wakes.
	Replicas int32 `json:"replicas"`
	// WhenScaled is the claim retention policy found before, when the sleep had to change it.
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
	// OwnerStops is true when the owner's operator scales the set to zero and back, and Drydock does not.
	OwnerStops bool `json:"ownerStops,omitempty"`
	// Round counts how often this sleep has scaled the set to zero, from 1. It grows when another process gives the set replicas.
	Round int `json:"round,omitempty"`
	// Stopping is when the set was scaled to zero in the present round; nil before.
	Stopping *metav1.Time `json:"stopping,omitempty"`
	// Quiesced is when no pod of the set was left.
	Quiesced *metav1.Time `json:"quiesced,omitempty"`
	// Ready is when the set was ready again.
	Ready *metav1.Time `json:"ready,omitempty"`
	// Starts counts the consecutive sleeps that StartedBy, a field manager, has ended by giving the set replicas.
	Starts    int    `json:"starts,omitempty"`
	StartedBy string `json:"startedBy,omitempty"`
}

// longestSleep bounds a sleep's record, in bytes: the sweep keeps those of all sets of the cluster at once. One has some 1,000.
const longestSleep = 32 << 10

// LoadSleep returns the record of the set's latest sleep, as LoadResize does.
func LoadSleep(set *appsv1.StatefulSet) (*Sleep, error) {
	if text := set.Annotations[SleepAnnotation]; len(text) > longestSleep {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has %d bytes, at most %d are read; remove it",
			SleepAnnotation, set.Namespace, set.Name, len(text), longestSleep)
	}
	sleep := &Sleep{}
	if found, err := load(set, SleepAnnotation, sleep, KindSleep); !found || !sleep.isOf(set) {
		return nil, err
	}
	return sleep, nil
}

// Active reports whether the sleep still has work to do. No sleep is not active.
func (s *Sleep) Active() bool { return s != nil && s.active() }

// Clone returns a copy that can be changed without changing s.
func (s *Sleep) Clone() *Sleep {
	c := *s
	return &c
}

// Annotation returns where the record is stored.
func (s *Sleep) Annotation() string { return SleepAnnotation }

// Encode renders the record.
func (s *Sleep) Encode() string { return mustJSON(s) }
