package soak

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/stage"
)

// web is a set with two members, as it should be.
func web(kind Kind) Set {
	return Set{Name: "web", Kind: kind, FirstReplicas: 2, Replicas: 2, Claims: 2, Size: 32, Class: stage.Class}
}

// liveOf returns the objects of a set that is as it should be.
func liveOf(s Set) Live {
	live := Live{Set: build.Set("web", build.Replicas(int32(s.Running())), build.Template(template, "32Mi", stage.Class))}
	for ordinal := range s.Claims {
		claim := build.Claim(ClaimName("web", ordinal), "32Mi", build.OfClass(stage.Class))
		claim.Status.Capacity = claim.Spec.Resources.Requests
		live.Claims = append(live.Claims, *claim)
	}
	for ordinal := range s.Running() {
		pod := corev1.Pod{}
		pod.Name = MemberName("web", ordinal)
		live.Pods = append(live.Pods, pod)
	}
	if s.Kind == Scaled {
		live.Scaler = &v1alpha1.Scaler{Spec: v1alpha1.ScalerSpec{Replicas: ptr.To(int32(s.Replicas))},
			Status: v1alpha1.ScalerStatus{Stage: v1alpha1.StageIdle, Replicas: int32(s.Running())}}
	}
	if s.Kind == Cleaned {
		record := &api.Cleanup{Header: header(api.KindCleanup, api.Succeeded), Span: &api.Span{End: s.Replicas}}
		ledger := &api.Ledger{Set: record.Set, Count: s.Replicas, Complete: true}
		build.With(live.Set, build.Annotation(api.CleanupAnnotation, record.Encode()), build.Annotation(api.LedgerAnnotation, ledger.Encode()))
	}
	if s.Asleep {
		build.With(live.Set, build.WithSleep(build.Sleep(api.Asleep)))
	}
	return live
}

func header(kind api.Kind, phase api.Phase) api.Header {
	return api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: kind, Phase: phase, Attempt: 1,
		Set: api.SetRef{Name: "web", UID: types.UID("uid-web")}}
}

func resize(phase api.Phase) *api.Resize { return &api.Resize{Header: header(api.KindResize, phase)} }

func TestDifferencesFromExpectedStateAreReported(t *testing.T) {
	asleep := func(s Set) Set {
		s.Asleep = true
		return s
	}
	ofSet := func(options ...build.Option) func(*Live) {
		return func(l *Live) { build.With(l.Set, options...) }
	}
	for name, row := range map[string]struct {
		set    Set
		change func(*Live)
		want   string
	}{
		"as expected":                    {web(Whole), func(*Live) {}, ""},
		"a sleeping set":                 {asleep(web(Whole)), func(*Live) {}, ""},
		"a set with a Scaler":            {web(Scaled), func(*Live) {}, ""},
		"a sleeping set with a Scaler":   {asleep(web(Scaled)), func(*Live) {}, ""},
		"a set with a cleanup":           {web(Cleaned), func(*Live) {}, ""},
		"a resize has ended":             {web(Whole), ofSet(build.Status(resize(api.Succeeded))), ""},
		"the set is gone":                {web(Whole), func(l *Live) { l.Set = nil }, "does not exist"},
		"the set is at zero":             {web(Whole), ofSet(build.Replicas(0)), "has 0 replicas, want 2"},
		"one member is not ready":        {web(Whole), ofSet(build.ReplicaCounts(2, 1)), "1 of them ready"},
		"a resize runs":                  {web(Whole), ofSet(build.Status(resize(api.Moving))), "has a Resize in phase Moving"},
		"a wake-up runs":                 {web(Whole), ofSet(build.WithSleep(build.Sleep(api.Waking))), "has a Sleep in phase Waking"},
		"it sleeps, and should be awake": {web(Whole), ofSet(build.WithSleep(build.Sleep(api.Asleep))), "has a Sleep in phase Asleep"},
		"it is awake, and should sleep":  {asleep(web(Whole)), ofSet(build.WithSleep(build.Sleep(api.Succeeded))), "does not sleep"},
		"a finalizer is left":            {web(Whole), ofSet(build.Finalizers(api.CleanupFinalizer)), "has the finalizers"},
		"an abort is left":               {web(Whole), ofSet(build.Annotation(api.AbortAnnotation, "now")), api.AbortAnnotation},
		"a retry is left":                {web(Whole), ofSet(build.Annotation(api.RetryAnnotation, "now")), api.RetryAnnotation},
		"an unreadable record":           {web(Whole), ofSet(build.Annotation(api.StatusAnnotation, "{")), "reading annotation"},
		"a claim is missing":             {web(Whole), func(l *Live) { l.Claims = l.Claims[:1] }, "has no claim data-web-1"},
		"a claim is pending":             {web(Whole), func(l *Live) { l.Claims[1].Status.Phase = corev1.ClaimPending }, "is not bound"},
		"a claim has its former size":    {web(Whole), func(l *Live) { l.Claims[0] = *build.Claim("data-web-0", "24Mi") }, "24Mi@"},
		"a claim has its former class":   {web(Whole), func(l *Live) { build.OfClass("fixed-2")(&l.Claims[0]) }, "32Mi@fixed-2, want 32Mi@fixed"},
		"a claim has not grown yet":      {web(Whole), func(l *Live) { l.Claims[0].Status.Capacity = nil }, "with a capacity of"},
		"a claim was not cleaned up": {web(Cleaned), func(l *Live) { l.Claims = append(l.Claims, *build.Claim("data-web-2", "32Mi")) },
			"data-web-2"},
		"the template has its former size": {web(Whole), func(l *Live) {
			l.Set.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", "24Mi").Spec
		}, "has a template of 24Mi"},
		"a pod is held":              {web(Whole), func(l *Live) { l.Pods[0].Finalizers = []string{api.HoldFinalizer} }, "drydock.dev/hold"},
		"a pod is left":              {asleep(web(Whole)), func(l *Live) { l.Pods = make([]corev1.Pod, 1) }, "has 1 pods with its label"},
		"the Scaler still works":     {web(Scaled), func(l *Live) { l.Scaler.Status.Stage = v1alpha1.StageScaling }, "in stage scaling"},
		"the Scaler has failed":      {web(Scaled), func(l *Live) { l.Scaler.Status.Stage = v1alpha1.StageFailed }, "in stage failed"},
		"somebody pauses the Scaler": {web(Scaled), func(l *Live) { l.Scaler.Spec.Paused = true }, "paused true"},
		"the Scaler is gone":         {web(Scaled), func(l *Live) { l.Scaler = nil }, "has no Scaler"},
		"the members are not accounted for": {web(Cleaned), func(l *Live) { delete(l.Set.Annotations, api.CleanupAnnotation) },
			"is not accounted for"},
		"the pods are not counted": {web(Cleaned), func(l *Live) { delete(l.Set.Annotations, api.LedgerAnnotation) }, "has the ledger <nil>"},
	} {
		live := liveOf(row.set)
		row.change(&live)
		got := strings.Join(row.set.Problems(live), "; ")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestFailureOfNewOperationIsFound(t *testing.T) {
	old, next := resize(api.Failed), resize(api.Failed)
	cleanup := &api.Cleanup{Header: header(api.KindCleanup, api.Failed)}
	next.Operation = "ba9876543210"
	for name, row := range map[string]struct {
		before, now Records
		found       bool
	}{
		"nothing":               {Records{}, Records{}, false},
		"an operation runs":     {Records{}, Records{Resize: resize(api.Moving)}, false},
		"it has failed":         {Records{}, Records{Resize: old}, true},
		"it was refused":        {Records{}, Records{Resize: resize(api.Refused)}, true},
		"it had failed before":  {Records{Resize: old}, Records{Resize: old}, false},
		"another one fails now": {Records{Resize: old}, Records{Resize: next}, true},
		"it ran, and fails now": {Records{Resize: resize(api.Moving)}, Records{Resize: old}, true},
		"a cleanup fails":       {Records{Resize: old}, Records{Resize: old, Cleanup: cleanup}, true},
	} {
		if failed := FirstFailure(row.before, row.now); (failed != nil) != row.found {
			t.Errorf("%s: %+v", name, failed)
		}
	}
}

func TestRemainsAreReported(t *testing.T) {
	now := build.Now
	claim := build.Claim("data-web-0", "32Mi")
	old := func(until time.Time) corev1.PersistentVolume {
		return *build.Volume("pv-old", claim, build.Released(), build.Retained(api.RoleOldVolume, claim.Name),
			build.Annotation(api.RetainedUntilAnnotation, until.Format(time.RFC3339)))
	}
	journal := func(name string, role api.Role) []appsv1.ControllerRevision {
		revision := appsv1.ControllerRevision{}
		revision.Name = name
		return []appsv1.ControllerRevision{*build.With(&revision, build.Link(role, ""))}
	}
	pod := func(options ...build.Option) []corev1.Pod {
		return []corev1.Pod{*build.With(&corev1.Pod{}, options...)}
	}
	for name, row := range map[string]struct {
		objects kit.Objects
		want    string
	}{
		"nothing":            {kit.Objects{Pods: pod(), Claims: []corev1.PersistentVolumeClaim{*claim}}, ""},
		"an old volume":      {kit.Objects{Volumes: []corev1.PersistentVolume{old(now.Add(time.Minute))}}, ""},
		"a sleeping set":     {kit.Objects{Revisions: journal(api.StopRecordName(build.SleepID), api.RoleStop)}, ""},
		"an expired volume":  {kit.Objects{Volumes: []corev1.PersistentVolume{old(now.Add(-time.Minute))}}, "volume pv-old, retained until"},
		"a journal":          {kit.Objects{Revisions: journal(api.JournalName(build.ID), api.RoleJournal)}, "journal drydock-" + build.ID},
		"a sleep that ended": {kit.Objects{Revisions: journal(api.StopRecordName(build.ID), api.RoleStop)}, "journal drydock-" + build.ID},
		"a held pod":         {kit.Objects{Pods: pod(build.Finalizers(api.HoldFinalizer))}, "pod "},
		"a cleanup pod":      {kit.Objects{Pods: pod(build.Finalizers(api.CleanupFinalizer))}, "pod "},
		"a mover":            {kit.Objects{Pods: pod(build.MemberLink(api.RoleMover, 0))}, "pod "},
		"a frozen claim": {kit.Objects{Claims: []corev1.PersistentVolumeClaim{*build.Claim("data-web-0", "32Mi",
			build.Finalizers(api.FreezeFinalizer))}}, "claim data-web-0"},
		"a temporary claim": {kit.Objects{Claims: []corev1.PersistentVolumeClaim{*build.Target("data-web-0", "32Mi")}}, "claim drydock-"},
		"a volume of nothing": {kit.Objects{Volumes: []corev1.PersistentVolume{*build.Volume("pv-x", claim, build.Released())}},
			"volume pv-x (Released)"},
	} {
		got := strings.Join(Remains(row.objects, []string{build.SleepID}, now), "; ")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
