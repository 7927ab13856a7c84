package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
)

const operation = "0123456789ab"

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// thing returns an object without a volume.
func thing(kind, name string, change ...func(*foundObject)) foundObject {
	f := foundObject{kind: kind, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func volume(name string, phase corev1.PersistentVolumePhase, policy corev1.PersistentVolumeReclaimPolicy,
	change ...func(*foundObject),
) foundObject {
	f := thing(volumesKind, name, change...)
	f.volume = &corev1.PersistentVolume{ObjectMeta: f.ObjectMeta, Status: corev1.PersistentVolumeStatus{Phase: phase}}
	f.volume.Spec.PersistentVolumeReclaimPolicy = policy
	return f
}

func label(key, value string) func(*foundObject) {
	return func(f *foundObject) { f.Labels[key] = value }
}
func note(key, value string) func(*foundObject) {
	return func(f *foundObject) { f.Annotations[key] = value }
}

// retired marks a volume as the old volume of an operation, in its retention until the given time.
func retired(operation, until string) func(*foundObject) {
	return func(f *foundObject) {
		link := api.Link{Operation: operation, Role: api.RoleOldVolume, Namespace: "demo", Set: api.SetRef{Name: setName}}
		f.Labels[api.OperationLabel] = operation
		f.Annotations[api.OperationAnnotation] = link.Encode()
		f.Annotations[api.ReclaimPolicyAnnotation] = "Delete"
		f.Annotations[api.RetainedUntilAnnotation] = until
	}
}

const tomorrow, yesterday = "2026-05-02T12:00:00Z", "2026-04-30T12:00:00Z"

// TestLeftoversOfAnOperation: after a resize, only old volumes in their retention may remain. Every other object of the operation and every
// damaged object is reported.
func TestLeftoversOfAnOperation(t *testing.T) {
	before := []foundObject{
		thing(setsKind, "web", label(api.ManagedLabel, "true")), thing("pods", "web-0"), thing("persistentvolumeclaims", "data-web-0"),
		volume("old", corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete),
	}
	good := func(change ...foundObject) []foundObject {
		all := map[string]foundObject{}
		var order []string
		for _, f := range append([]foundObject{
			thing(setsKind, "web", label(api.ManagedLabel, "true"), note(api.StatusAnnotation, "{}"), note(api.ResizeAnnotation, "data=2Gi")),
			thing("pods", "web-0"), thing("persistentvolumeclaims", "data-web-0"),
			volume("old", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain, retired(operation, tomorrow)),
			volume("new", corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete),
		}, change...) {
			if _, twice := all[f.String()]; !twice {
				order = append(order, f.String())
			}
			all[f.String()] = f
		}
		var list []foundObject
		for _, name := range order {
			list = append(list, all[name])
		}
		return list
	}
	f := golden.Open(t)
	cases := map[string]struct {
		after []foundObject
		kept  int
	}{
		"only the old volume remains": {good(), 1},
		"a job":                       {good(thing("jobs", "copy")), 1},
		"a journal":                   {good(thing("controllerrevisions", "journal")), 1},
		"a temporary claim":           {good(thing("persistentvolumeclaims", "drydock-x")), 1},
		"a label on a claim":          {good(thing("persistentvolumeclaims", "data-web-0", label(api.OperationLabel, operation))), 1},
		"a finalizer on a claim": {good(thing("persistentvolumeclaims", "data-web-0",
			func(f *foundObject) { f.Finalizers = []string{api.FreezeFinalizer} })), 1},
		"an annotation on the set":               {good(thing(setsKind, "web", note(api.RetryAnnotation, ""))), 1},
		"a claim is missing":                     {good()[:2], 0},
		"the old volume is missing":              {good()[:3], 0},
		"a released volume without a mark":       {good(volume("lost", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete)), 1},
		"the new volume would outlive its claim": {good(volume("new", corev1.VolumeBound, corev1.PersistentVolumeReclaimRetain)), 1},
		"the old volume has the reclaim policy Delete": {good(volume("old", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete,
			retired(operation, tomorrow))), 0},
		"the retention of the old volume has ended": {good(volume("old", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain,
			retired(operation, yesterday))), 0},
		"an old volume of another operation": {good(volume("older", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain,
			retired("ffffffffffff", tomorrow))), 1},
		"the owner was deleted": {good(thing("pods", "web-0", func(f *foundObject) {
			f.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", UID: "another"}}
		})), 1},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		test := cases[name]
		kept, wrong := findLeftovers(before, test.after, operation, now)
		if len(kept) != test.kept {
			t.Errorf("%s: %d volumes are kept, want %d", name, len(kept), test.kept)
		}
		f.Entry(t, name, strings.Join(wrong, "\n"))
	}
}

func TestReleasePatchMakesKubernetesDeleteTheVolume(t *testing.T) {
	for name, test := range map[string]struct {
		policy corev1.PersistentVolumeReclaimPolicy
		ref    *corev1.ObjectReference
		want   string
	}{
		"the policy is Delete": {corev1.PersistentVolumeReclaimDelete, &corev1.ObjectReference{UID: "1"}, `{"spec":{}}`},
		"the policy is Retain": {corev1.PersistentVolumeReclaimRetain, &corev1.ObjectReference{UID: "1"},
			`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`},
		"reserved for a claim and never bound": {corev1.PersistentVolumeReclaimDelete, &corev1.ObjectReference{},
			`{"spec":{"claimRef":{"uid":"00000000-0000-0000-0000-000000000000"}}}`},
	} {
		v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: test.policy, ClaimRef: test.ref}}
		if got := string(mergePatch("spec", releasePatch(v))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
