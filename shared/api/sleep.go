package api

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/text"
)

// Sleep is the record of a set's latest sleep, from the decision to the end of the wake-up. Its request is the cause of the sleep.
type Sleep struct {
	Header
	// Replicas is the former count, which the set gets back when it wakes.
	Replicas int32 `json:"replicas"`
	// OwnerStops is true when the owner's operator, not Drydock, scales the set to zero and back.
	OwnerStops bool `json:"ownerStops,omitempty"`
	// StoppedOwner is the UID of that owner. If it is above the set's controller, its operator may stop the sets of other controllers, too.
	StoppedOwner types.UID `json:"stoppedOwner,omitempty"`
	// Probes is true if the activity probes of the group had to be asked before the sleep.
	Probes bool `json:"probes,omitempty"`
	// Step is how far the present phase has come, if that is not visible on the objects. Decisions read it; the reason is for people.
	Step SleepStep `json:"step,omitempty"`
	// PodsGoneAt is when the last pod of the set was gone.
	PodsGoneAt *metav1.Time `json:"quiesced,omitempty"`
	// WakingAt is when the set began to wake. It is nil before, and for a record that began with the wake-up.
	WakingAt *metav1.Time `json:"waking,omitempty"`
	// ReadyAt is when the set became ready again.
	ReadyAt *metav1.Time `json:"ready,omitempty"`
	// StartsLate is true if the latest wake-up failed, and nothing has seen the set ready since.
	StartsLate bool `json:"startsLate,omitempty"`
	// Failure says why the sleep failed, while the set wakes because of that. It is nil if the sleep did not fail.
	Failure *SleepFailure `json:"failure,omitempty"`
	// Starts counts the sleeps in a row that other clients ended by scaling the set up: those before this one, and also this one once it
	// has ended in that way.
	Starts int `json:"starts,omitempty"`
}

// SleepStep is a part of a sleep's phase.
type SleepStep string

// The steps of a wake-up and of a refusal.
const (
	// AwaitsDependency: the set is at zero until the sets that it depends on are ready.
	AwaitsDependency SleepStep = "AwaitsDependency"
	// StartedForOwner: Drydock restores the replicas, because the operator that stopped the set has not.
	StartedForOwner SleepStep = "StartedForOwner"
	// AwaitsOwner: the sleep is refused until nothing about the owner prevents it. pause-owner judges that.
	AwaitsOwner SleepStep = "AwaitsOwner"
	// AwaitsAdmission: the same, and the API server rejected a write to the owner. It may accept a dry run of that write.
	AwaitsAdmission SleepStep = "AwaitsAdmission"
	// AwaitsCorrection: the sleep is refused until the annotations of the set are valid.
	AwaitsCorrection SleepStep = "AwaitsCorrection"
	// AwaitsProbe: the sleep is refused because an activity probe failed.
	AwaitsProbe SleepStep = "AwaitsProbe"
	// CauseRemoved: the cause of the refusal is gone, so the next sleep does not wait.
	CauseRemoved SleepStep = "CauseRemoved"
)

// SleepFailure is why a sleep failed.
type SleepFailure struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// longestSleep is the limit for a record, in bytes. A record has about 1,000. The sweep holds those of all sets of the cluster in memory.
const longestSleep = 32 << 10

// longestSleepText is the limit for each of the three texts in a record, in bytes. JSON may need six bytes for one.
const longestSleepText = 1500

// LoadSleep returns the record of the set's latest sleep, with the rules of LoadResize. A finished sleep of the set that a resize has
// replaced counts as one of this set: only the record of that resize proves this.
func LoadSleep(set *appsv1.StatefulSet) (*Sleep, error) {
	if text := set.Annotations[SleepAnnotation]; len(text) > longestSleep {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has %d bytes, at most %d are read; remove it",
			SleepAnnotation, set.Namespace, set.Name, len(text), longestSleep)
	}
	sleep := &Sleep{}
	found, err := load(set, SleepAnnotation, sleep, KindSleep)
	switch {
	case !found || err != nil:
		return nil, err
	case sleep.isOf(set):
		return sleep, nil
	case sleep.Active() || !sleep.isOfFormer(set):
		return nil, nil
	}
	return sleep, nil
}

// FormerSleep returns the unfinished sleep of a former set with the set's name, if the set has its record and stands at zero, or nil. A set
// that was restored from a backup has such a record, and so has a set that was deleted and created again with its annotations. It is no
// sleep of this set: its users start the set.
func FormerSleep(set *appsv1.StatefulSet) *Sleep {
	if len(set.Annotations[SleepAnnotation]) > longestSleep || set.Spec.Replicas == nil || *set.Spec.Replicas > 0 {
		return nil
	}
	sleep := &Sleep{}
	found, err := load(set, SleepAnnotation, sleep, KindSleep)
	if !found || err != nil || sleep.Set.Name != set.Name || sleep.isOf(set) || !sleep.Active() {
		return nil
	}
	return sleep
}

// StartedByOthers reports whether the set wakes because another client has started it.
func (s *Sleep) StartedByOthers() bool { return s != nil && s.Phase == Waking && s.Starts > 0 }

// Active reports whether the sleep still has work to do. A nil sleep has none.
func (s *Sleep) Active() bool { return s != nil && s.active() }

// WakeBegan returns when the latest wake-up of this sleep began.
func (s *Sleep) WakeBegan() *metav1.Time {
	if s.WakingAt != nil {
		return s.WakingAt
	}
	return &s.Started
}

// Clone returns a copy. Changing it does not change s.
func (s *Sleep) Clone() *Sleep {
	c := *s
	return &c
}

// Annotation returns the key under which the record is stored.
func (s *Sleep) Annotation() string { return SleepAnnotation }

// Encode renders the record. It clips long texts, which quote other components: a record that is too long could not be read again.
func (s *Sleep) Encode() string {
	short := s.Clone()
	short.Message, short.OwnerProblem = text.Clip(s.Message, longestSleepText), text.Clip(s.OwnerProblem, longestSleepText)
	if s.Failure != nil {
		short.Failure = &SleepFailure{Reason: s.Failure.Reason, Message: text.Clip(s.Failure.Message, longestSleepText)}
	}
	return mustJSON(short)
}
