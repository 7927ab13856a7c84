package sift

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// figures computes the gauges of a sweep from the objects that the sweep reads anyway. It keeps sums and no objects.
type figures struct {
	sums
	owners map[pausedOwner]bool // the paused owners that were counted
}

// sums has the fields of telemetry.Sweep, which has their comments. The sweep converts one type to the other, because a pure function does
// not import package telemetry.
type sums struct {
	At                                  time.Time
	Operations                          map[[2]string]int
	Overdue                             map[string]int
	Oldest                              map[string]time.Time
	MembersHeld                         int
	OldestHold                          time.Time
	Awake, Asleep                       int
	SavedMembers, SavedCPU, SavedMemory float64
	RetainedBytes                       float64
	OwnersPaused                        map[string]int
	OldestPause                         map[string]time.Time
	DeadLetters                         int
}

// pausedOwner is an owner that operations of a kind have paused.
type pausedOwner struct {
	uid  types.UID
	kind string
}

const (
	// unreadable stands for the phase of a record that cannot be read. No function works on such a set.
	unreadable = "Unreadable"
	// noKind stands for the kind of an operation that has ended, or whose set is gone.
	noKind = "None"
)

// newFigures returns figures with a zero for every kind and phase, so that each series exists.
func newFigures() *figures {
	f := &figures{owners: map[pausedOwner]bool{}}
	f.Operations, f.Overdue, f.Oldest = map[[2]string]int{}, map[string]int{}, map[string]time.Time{}
	f.OwnersPaused, f.OldestPause = map[string]int{noKind: 0}, map[string]time.Time{}
	for kind, phases := range api.Phases {
		f.Overdue[string(kind)], f.OwnersPaused[string(kind)] = 0, 0
		f.Operations[stateOf(kind, unreadable)] = 0
		for _, phase := range phases {
			if phase != api.Succeeded {
				f.Operations[stateOf(kind, phase)] = 0
			}
		}
	}
	return f
}

func stateOf(kind api.Kind, phase api.Phase) [2]string { return [2]string{string(kind), string(phase)} }

// addSet adds an opted-in set with its records.
func (f *figures) addSet(set *appsv1.StatefulSet, records operation.Records, now time.Time) {
	for _, record := range records.All() {
		_, sleeps := record.(*api.Sleep)
		if !records.Settled(record) && !(sleeps && set.DeletionTimestamp != nil) { // no function ends the sleep of a deleted set
			f.addRecord(record, now)
		}
	}
	for kind, err := range map[api.Kind]error{api.KindResize: records.ResizeErr, api.KindSleep: records.SleepErr,
		api.KindCleanup: records.CleanupErr, api.KindScale: records.ScaleErr} {
		if err != nil {
			f.Operations[stateOf(kind, unreadable)]++
		}
	}
	if records.Sleep.Active() && records.Sleep.Phase == api.Asleep {
		f.Asleep++
		f.addSaving(set, records.Sleep)
	} else {
		f.Awake++
	}
	letters, _ := api.LoadDeadLetters(set) // an unreadable list has no letters that could be sent again
	f.DeadLetters += len(letters)
}

// addRecord counts an operation that is unfinished, failed or refused.
func (f *figures) addRecord(record operation.Record, now time.Time) {
	head := record.Head()
	f.Operations[stateOf(head.Kind, head.Phase)]++
	if !record.Active() || head.Phase == api.Asleep {
		return
	}
	if operation.Overdue(record, now) {
		f.Overdue[string(head.Kind)]++
	}
	began := head.Started.Time
	if sleep, ok := record.(*api.Sleep); ok {
		if sleep.Phase != api.Waking { // a set falls asleep within a deadline, which depends on its pods and hooks
			return
		}
		began = sleep.WakeBegan().Time
	}
	keepEarliest(f.Oldest, string(head.Kind), began)
}

func keepEarliest(times map[string]time.Time, key string, at time.Time) {
	if known, found := times[key]; !found || at.Before(known) {
		times[key] = at
	}
}

// addSaving adds the requests of the pods that a sleeping set would have.
func (f *figures) addSaving(set *appsv1.StatefulSet, sleep *api.Sleep) {
	members := float64(max(0, sleep.Replicas-set.Status.Replicas))
	requests := statefulset.PodRequests(&set.Spec.Template.Spec)
	f.SavedMembers += members
	f.SavedCPU += members * requests.Cpu().AsApproximateFloat64()
	f.SavedMemory += members * requests.Memory().AsApproximateFloat64()
}

// addHeld adds a held pod.
func (f *figures) addHeld(pod *corev1.Pod) {
	f.MembersHeld++
	if at := heldSince(pod); f.OldestHold.IsZero() || at.Before(f.OldestHold) {
		f.OldestHold = at
	}
}

// heldSince returns when a held pod was told to stop. A pod that locks the name of a member is held since its creation.
func heldSince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return pod.CreationTimestamp.Time
	}
	grace := time.Duration(0)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	return pod.DeletionTimestamp.Add(-grace)
}

// addOwner adds the record of a pause. Several operations may need the pause of one owner.
func (f *figures) addOwner(revision *appsv1.ControllerRevision, kind api.Kind) {
	owner, err := api.LoadPausedOwner(revision)
	if err != nil {
		return // pause-owner reports it
	}
	key := pausedOwner{owner.UID, string(kind)}
	if kind == "" {
		key.kind = noKind
	}
	keepEarliest(f.OldestPause, key.kind, revision.CreationTimestamp.Time)
	if !f.owners[key] {
		f.owners[key] = true
		f.OwnersPaused[key.kind]++
	}
}

// addRetained adds an old volume within its retention.
func (f *figures) addRetained(volume *corev1.PersistentVolume) {
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	f.RetainedBytes += size.AsApproximateFloat64()
}
