package podend_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/podend"
	"drydock.dev/test/kit/build"
)

var (
	ended = time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	now   = ended.Add(time.Minute)
)

// drained returns a pod in the phase Succeeded whose container "drain" has exited with 0.
func drained(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-2", UID: "uid-pod"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "log", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}, {Name: "wait"}},
			Containers:     []corev1.Container{{Name: "drain"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "drain",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(ended.Add(-20 * time.Second)),
				FinishedAt: metav1.NewTime(ended)}}}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func disrupted(status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status, Reason: "TerminationByKubelet"}}
	}
}

func asks(p *corev1.Pod) {
	p.Annotations = map[string]string{api.SuccessMessageAnnotation: "all shards moved"}
}

func says(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Message = message }
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(ended)) }

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// told returns an Event of the kubelet about the pod.
func told(reason, path string, before time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: "Usage of EmptyDir volume \"tmp\" exceeds the limit \"1Mi\"",
		InvolvedObject: corev1.ObjectReference{UID: "uid-pod", FieldPath: path}, LastTimestamp: metav1.NewTime(ended.Add(-before))}
}

// often returns an Event about a failing probe that the kubelet has told several times.
func often(count int32) corev1.Event {
	e := told("Unhealthy", "spec.containers{drain}", time.Minute)
	e.Source.Component, e.Count = "kubelet", count
	return e
}

// toldAnew returns the Event as a writer of the API events.k8s.io stores it: told once, and for the last time later if that is not zero.
func toldAnew(e corev1.Event, once, last time.Time) corev1.Event {
	e.LastTimestamp, e.EventTime = metav1.Time{}, metav1.NewMicroTime(once)
	if !last.IsZero() {
		e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(last)}
	}
	return e
}

func about(uid types.UID, e corev1.Event) corev1.Event {
	e.InvolvedObject.UID = uid
	return e
}

// TestOnlyPodThatEndedByItselfHasSucceeded: an empty text in early is a success, or a pod that has not reached the phase Succeeded.
func TestOnlyPodThatEndedByItselfHasSucceeded(t *testing.T) {
	rows := map[string]struct {
		pod       *corev1.Pod
		events    []corev1.Event
		succeeded bool
		early     string
	}{
		"it ended by itself":         {pod: drained(), succeeded: true},
		"it runs":                    {pod: drained(inPhase(corev1.PodRunning))},
		"it failed":                  {pod: drained(inPhase(corev1.PodFailed), disrupted(corev1.ConditionTrue))},
		"it was deleted":             {pod: drained(deleted), early: "was deleted"},
		"its node shut down":         {pod: drained(disrupted(corev1.ConditionTrue)), early: "was disrupted: TerminationByKubelet"},
		"a disruption was withdrawn": {pod: drained(disrupted(corev1.ConditionFalse)), succeeded: true},
		"its emptyDir was full": {pod: drained(), events: []corev1.Event{told("Evicted", "", 2*time.Second)},
			early: `was ended by its kubelet: Evicted Usage of EmptyDir volume "tmp" exceeds the limit "1Mi"`},
		"a critical pod needed its place": {pod: drained(), events: []corev1.Event{told("Preempting", "", time.Second)},
			early: "was ended by its kubelet: Preempting"},
		"its container was killed": {pod: drained(), events: []corev1.Event{told("Killing", "spec.containers{drain}", time.Second)},
			early: "was ended by its kubelet: Killing"},
		"an init container was killed": {pod: drained(), events: []corev1.Event{told("Killing", "spec.initContainers{wait}", time.Minute)},
			early: "was ended by its kubelet: Killing"},
		"its sidecar was ended": {pod: drained(), events: []corev1.Event{told("Killing", "spec.initContainers{log}", 0)}, succeeded: true},
		"an earlier run was killed": {pod: drained(), events: []corev1.Event{told("Killing", "spec.containers{drain}", time.Minute)},
			succeeded: true},
		"killed and started at once": {pod: drained(), events: []corev1.Event{told("Killing", "spec.containers{drain}", 20*time.Second)},
			early: "Killing"},
		"an earlier run was killed, says an Event of events.k8s.io": {pod: drained(), events: []corev1.Event{
			toldAnew(told("Killing", "spec.containers{drain}", 0), ended.Add(-time.Minute), time.Time{})}, succeeded: true},
		"it was killed, says an Event of events.k8s.io": {pod: drained(), events: []corev1.Event{
			toldAnew(told("Killing", "spec.containers{drain}", 0), ended.Add(-time.Second), time.Time{})}, early: "Killing"},
		"an earlier run and this one were killed": {pod: drained(), events: []corev1.Event{
			toldAnew(told("Killing", "spec.containers{drain}", 0), ended.Add(-time.Minute), ended.Add(-time.Second))}, early: "Killing"},
		"killed at an unknown time": {pod: drained(), events: []corev1.Event{
			toldAnew(told("Killing", "spec.containers{drain}", 0), time.Time{}, time.Time{})}, early: "Killing"},
		"its kubelet has told much, and may have dropped an Event": {pod: drained(), events: []corev1.Event{often(19), often(1)},
			early: "has so many Events that its kubelet may have dropped one about its end (the annotation drydock.dev/success-message " +
				"proves a success in any case)"},
		"its kubelet has told less":  {pod: drained(), events: []corev1.Event{often(18), often(1)}, succeeded: true},
		"an earlier pod was evicted": {pod: drained(), events: []corev1.Event{about("uid-other", told("Evicted", "", 0))}, succeeded: true},
		"an Event of another kind":   {pod: drained(), events: []corev1.Event{told("BackOff", "spec.containers{drain}", 0)}, succeeded: true},
		"it says what was asked":     {pod: drained(asks, says("moved 8 of 8\nall shards moved \n")), succeeded: true},
		"it says a part":             {pod: drained(asks, says("not all shards moved")), early: `has not written "all shards moved"`},
		"it says nothing":            {pod: drained(asks), early: `has not written "all shards moved"`},
		"it said it before an eviction": {pod: drained(asks, says("all shards moved"), disrupted(corev1.ConditionTrue)),
			events: []corev1.Event{told("Evicted", "", 0)}, succeeded: true},
		"it said it before a deletion": {pod: drained(asks, says("all shards moved"), deleted), succeeded: true},
		"it said it and failed":        {pod: drained(asks, says("all shards moved"), inPhase(corev1.PodFailed))},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			kills := build.NoKills(row.pod)
			for i := range row.events {
				kills.Note(row.pod, &row.events[i])
			}
			want := podend.Open
			switch {
			case row.succeeded:
				want = podend.Succeeded
			case row.early != "":
				want = podend.Unproven
			}
			verdict, why := podend.Judge(now, row.pod, kills)
			if verdict != want || (why == "") != (row.early == "") || !strings.Contains(why, row.early) {
				t.Errorf("verdict %d, %q; want %d, %q", verdict, why, want, row.early)
			}
		})
	}
}

func withGrace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func withLivenessGrace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: &seconds}
	}
}

// TestEndIsJudgedWhileItsEventsAreKnown: Events arrive late, they expire, and a read of them may fail.
func TestEndIsJudgedWhileItsEventsAreKnown(t *testing.T) {
	unread := podend.Kills{Unread: "reading the Events about pod web-2: the server is shutting down"}
	rows := map[string]struct {
		pod    *corev1.Pod
		after  time.Duration // from the end to the judgement
		unread bool
		want   podend.Verdict
		why    string
	}{
		"at once":                   {drained(), 0, false, podend.Pending, "has just ended"},
		"its node's clock is ahead": {drained(), -time.Minute, false, podend.Pending, "has just ended"},
		"five seconds later":        {drained(), 5 * time.Second, false, podend.Succeeded, ""},
		"half an hour later":        {drained(), 30 * time.Minute, false, podend.Succeeded, ""},
		"an hour later":             {drained(), time.Hour, false, podend.Unproven, "may have expired"},
		"half an hour later, and it ended for as long": {drained(withGrace(1800)), 30 * time.Minute, false, podend.Unproven, "may have expired"},
		"half an hour later, and its container ended for as long": {drained(withLivenessGrace(1800)), 30 * time.Minute, false, podend.Unproven,
			"may have expired"},
		"an hour later, with a message": {drained(asks, says("all shards moved")), time.Hour, false, podend.Succeeded, ""},
		"at once, with a message":       {drained(asks, says("all shards moved")), 0, true, podend.Succeeded, ""},
		"its Events are unread":         {drained(), time.Minute, true, podend.Pending, "the server is shutting down"},
		"its Events stay unread":        {drained(), time.Hour, true, podend.Unproven, "the server is shutting down"},
		"it was deleted, unread":        {drained(deleted), time.Minute, true, podend.Unproven, "was deleted"},
		"its end has no time": {drained(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), time.Minute, false, podend.Unproven,
			"does not show when"},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			kills := build.NoKills(row.pod)
			if row.unread {
				kills = unread
			}
			if verdict, why := podend.Judge(ended.Add(row.after), row.pod, kills); verdict != row.want || !strings.Contains(why, row.why) {
				t.Errorf("verdict %d, %q; want %d, %q", verdict, why, row.want, row.why)
			}
		})
	}
}

// TestJobSucceedsByOnePodThatEndedByItself: the Job controller counts every pod in the phase Succeeded.
func TestJobSucceedsByOnePodThatEndedByItself(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "hook", UID: "uid-job"},
		Status: batchv1.JobStatus{CompletionTime: ptr.To(metav1.NewTime(ended))}}
	of := func(uid types.UID, changes ...func(*corev1.Pod)) *corev1.Pod {
		pod := drained(changes...)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "hook", UID: uid, Controller: ptr.To(true)}}
		return pod
	}
	fresh := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(-time.Second))
	}
	failed := inPhase(corev1.PodFailed)
	rows := map[string]struct {
		pods   []*corev1.Pod
		unread string
		at     time.Time
		want   podend.Verdict
		why    string
	}{
		"one pod":                 {[]*corev1.Pod{of("uid-job")}, "", now, podend.Succeeded, ""},
		"a failed pod before it":  {[]*corev1.Pod{of("uid-job", failed), of("uid-job")}, "", now, podend.Succeeded, ""},
		"its pod was drained":     {[]*corev1.Pod{of("uid-job", deleted)}, "", now, podend.Unproven, "pod web-2 was deleted"},
		"its pod is gone":         {nil, "", now, podend.Unproven, "its pod is gone"},
		"a pod of an earlier Job": {[]*corev1.Pod{of("uid-other")}, "", now, podend.Unproven, "its pod is gone"},
		"drained beside an earlier fail": {[]*corev1.Pod{of("uid-job", failed), of("uid-job", deleted)}, "", now,
			podend.Unproven, "was deleted"},
		"its pod has just ended":          {[]*corev1.Pod{of("uid-job", fresh)}, "", now, podend.Pending, "pod web-2 has just ended"},
		"one pod drained, one just ended": {[]*corev1.Pod{of("uid-job", fresh), of("uid-job", deleted)}, "", now, podend.Pending, "just ended"},
		"its pods are unread": {nil, "reading the pods: refused", now, podend.Pending,
			"its pod is unknown: reading the pods: refused"},
		"its pods stay unread": {nil, "reading the pods: refused", ended.Add(time.Hour), podend.Unproven, "its pod is gone"},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			kills := build.NoKills(row.pods...)
			kills.Unread = row.unread
			verdict, why := podend.JudgeJob(row.at, job, row.pods, kills)
			if verdict != row.want || !strings.Contains(why, row.why) {
				t.Errorf("verdict %d, %q; want %d, %q", verdict, why, row.want, row.why)
			}
		})
	}
}
