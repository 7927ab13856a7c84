//go:build cluster

package api

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// stop is a point of a resize at which the tests halt it and act.
type stop struct {
	phase api.Phase
	// growing: the class of the claims expands in place. Otherwise the claims are copied.
	growing bool
	// halt keeps the operation at the stop, begin drives it, at reports whether it is there, and release lets it
	// continue.
	halt, release func(w *kit.World)
	begin         func(w *kit.World) *kit.Drive
	at            func(w *kit.World, status *api.Resize) bool
}

// Names of the stops in the tables of this package.
const (
	growsNow    = "while claims grow"
	plannedNow  = "before the owner consents"
	copyNow     = "while the first passes are made"
	waitNow     = "while the members wait to be stopped"
	stoppingNow = "while the members stop"
	finalNow    = "while the final passes are made"
	verifiedNow = "when every copy is verified"
	swapNow     = "when one claim is swapped and the other is not"
	startNow    = "while the members start"
)

var stops = map[string]stop{
	growsNow: {phase: api.Expanding, growing: true, begin: undisturbed, at: anywhere,
		halt:    func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater }) },
		release: func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline }) }},
	plannedNow: {phase: api.Planned, begin: dies, at: anywhere, halt: nothing, release: nothing},
	copyNow: {phase: api.Moving, begin: undisturbed, at: firstPassesRun,
		halt: func(w *kit.World) { holdFirstPass(w, true) }, release: func(w *kit.World) { holdFirstPass(w, false) }},
	waitNow: {phase: api.Moving, begin: undisturbed, at: membersAre(api.MemberWaiting),
		halt: func(w *kit.World) { w.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverApprove}) },
		release: func(w *kit.World) {
			if w.Set("web") != nil {
				w.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverAuto})
			}
		}},
	stoppingNow: {phase: api.Moving, begin: undisturbed, at: podsEnd,
		halt:    func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.HoldStops = true }) },
		release: func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.HoldStops = false }) }},
	finalNow: {phase: api.Moving, begin: undisturbed, at: membersAre(api.MemberFinalPass),
		halt: func(w *kit.World) { holdPods(w, true) }, release: func(w *kit.World) { holdPods(w, false) }},
	verifiedNow: {phase: api.Moving, begin: diesWhenCopied, at: membersAre(api.MemberSwapping), halt: nothing, release: nothing},
	swapNow: {phase: api.Moving, begin: keepsTemporaryClaim, at: oneIsSwapped, halt: nothing,
		release: func(w *kit.World) { keepClaim(w, false) }},
	startNow: {phase: api.Moving, begin: withoutPods, at: membersAre(api.MemberStarting), halt: nothing,
		release: func(w *kit.World) {
			w.CreateQuota(corev1.ResourcePods, "100")
			retryPods(w)
		}},
}

// retryPods has the StatefulSet controller create the missing pods now. After errors it waits up to a thousand seconds for its next try
// (client-go util/workqueue, DefaultTypedControllerRateLimiter), but a change of the set wakes it.
func retryPods(w *kit.World) {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"example.com/quota":"raised"}}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // some tests delete the set
		panic(err)
	}
}

func nothing(*kit.World) {}

func anywhere(*kit.World, *api.Resize) bool { return true }

func undisturbed(w *kit.World) *kit.Drive { return w.Drive(nil) }

// dies returns functions that end after the first write of the record.
func dies(w *kit.World) *kit.Drive { return w.Drive(&kit.Saboteur{At: 1, Failure: kit.DieAfter}) }

// allInPhase reports whether there are two members, both in the phase.
func allInPhase(record *api.Resize, phase api.MemberPhase) bool {
	return record != nil && len(record.Members) == 2 &&
		!slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != phase })
}

// membersAre reports whether both members are in the phase.
func membersAre(phase api.MemberPhase) func(*kit.World, *api.Resize) bool {
	return func(_ *kit.World, record *api.Resize) bool { return allInPhase(record, phase) }
}

// onceInPhase calls act after the first write that brings both members to the phase.
func onceInPhase(w *kit.World, phase api.MemberPhase, act func(saboteur *kit.Saboteur)) *kit.Drive {
	saboteur, done := &kit.Saboteur{}, false
	saboteur.OnWrite = func(string) {
		if set := w.Set("web"); !done && set != nil && allInPhase(w.Status("web"), phase) {
			done = true
			act(saboteur)
		}
	}
	return w.Drive(saboteur)
}

// diesWhenCopied returns functions that end when every copy is verified, before they use the copies.
func diesWhenCopied(w *kit.World) *kit.Drive {
	return onceInPhase(w, api.MemberSwapping, func(s *kit.Saboteur) { s.At, s.Failure = len(s.Writes())+1, kit.DieBefore })
}

// withoutPods returns functions that cannot create pods after the copies are made.
func withoutPods(w *kit.World) *kit.Drive {
	return onceInPhase(w, api.MemberSwapping, func(*kit.Saboteur) { w.CreateQuota(corev1.ResourcePods, "0") })
}

// firstPassesRun reports whether the first init containers of both movers run.
func firstPassesRun(w *kit.World, record *api.Resize) bool {
	running := 0
	for _, pod := range movers(w.T, w) {
		if len(pod.Status.InitContainerStatuses) > 0 && pod.Status.InitContainerStatuses[0].State.Running != nil {
			running++
		}
	}
	return running == 2 && allInPhase(record, api.MemberCopying)
}

// podsEnd reports whether both pods are held and terminating.
func podsEnd(w *kit.World, record *api.Resize) bool {
	ending := 0
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return false
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil && statefulset.Held(&pods.Items[i]) {
			ending++
		}
	}
	return ending == 2 && allInPhase(record, api.MemberStopping)
}

// oneIsSwapped reports whether one claim is swapped and the other one waits for its new volume.
func oneIsSwapped(w *kit.World, record *api.Resize) bool {
	kept, other := w.Claim("data-web-0"), w.Claim("data-web-1")
	return kept != nil && kept.Spec.VolumeName == record.Move("data-web-0").OldVolume && other != nil &&
		other.Status.Phase == corev1.ClaimBound &&
		other.Spec.VolumeName == record.Move("data-web-1").NewVolume
}

// keeper is a finalizer like those of backup tools on claims.
const keeper = "example.com/keep"

// keepsTemporaryClaim returns functions after whose stop of the members another client keeps the temporary claim of
// data-web-0. Then its volume does not become free.
func keepsTemporaryClaim(w *kit.World) *kit.Drive {
	return onceInPhase(w, api.MemberStopping, func(*kit.Saboteur) { keepClaim(w, true) }) // all members reach it with one write
}

// keepClaim adds the keeper to the temporary claim of data-web-0, or removes it.
func keepClaim(w *kit.World, keep bool) {
	w.T.Helper()
	w.Eventually("the foreign finalizer is added or removed", func() string {
		claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(),
			metav1.ListOptions{LabelSelector: api.OperationLabel})
		if err != nil {
			return err.Error()
		}
		for i := range claims.Items {
			link, err := api.LoadLink(&claims.Items[i])
			if err != nil || link == nil || link.Role != api.RoleTarget || link.Claim != "data-web-0" {
				continue
			}
			if err := keepOne(w, &claims.Items[i], keep); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

func keepOne(w *kit.World, claim *corev1.PersistentVolumeClaim, keep bool) error {
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == keeper })
	if keep {
		claim.Finalizers = append(claim.Finalizers, keeper)
	}
	_, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Update(context.Background(), claim, metav1.UpdateOptions{})
	return err
}

// set returns a set for the stop.
func (s stop) set() *appsv1.StatefulSet {
	if s.growing {
		return growingSet(2, "data")
	}
	return kit.WorldSet("web", 2, "64Mi", "data")
}

// resized is a world with a resize of a set that a custom resource controls.
type resized struct {
	*kit.World
	stop  stop
	row   owners.Row
	owner map[string]any // before the resize
	claim []string
}

// newResized creates a set whose resize will halt at the stop. The changes are applied to world and set first.
func newResized(t *testing.T, s stop, changes ...func(*kit.World, *appsv1.StatefulSet)) *resized {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "monitoring.coreos.com", "Prometheus")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "Prometheus")
	owner := w.CreateCustom(row, "Prometheus", "main", map[string]any{"paused": false}, nil)
	set := s.set()
	for _, change := range changes {
		change(w, set)
	}
	w.CreateSet(set)
	w.SetController("web", owner)
	r := &resized{World: w, stop: s, row: row, owner: content(owner), claim: []string{"data-web-0", "data-web-1"}}
	s.halt(w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	return r
}

// reach drives the resize to the stop, or to its failure there, and returns new functions.
func (r *resized) reach() *kit.Drive {
	r.T.Helper()
	drive := r.stop.begin(r.World)
	r.Eventually("the resize is "+string(r.stop.phase), func() string {
		_ = drive.Tick(context.Background()) // a dead process returns an error
		status := r.Status("web")
		if status == nil || status.FailedAt != r.stop.phase && (status.Phase != r.stop.phase || !r.stop.at(r.World, status)) {
			return describe(status)
		}
		return ""
	})
	next := r.Drive(nil)
	next.EventTypes = drive.EventTypes
	return next
}

func describe(status *api.Resize) string {
	if status == nil {
		return "there is no status"
	}
	return string(status.Phase) + " " + string(status.Reason) + ": " + status.Message
}

// expectGivenBack checks the invariants after every operation: the replicas are back (I4), every claim is complete
// (I1), the owner is not paused (I5), nothing is left (I9).
func (r *resized) expectGivenBack(t *testing.T, drive *kit.Drive) {
	t.Helper()
	expectWhole(t, r.World, "web", 2, r.claim...)
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
}

// size returns the requested size of a claim in whole Mi. One byte more is an expansion that was reverted.
func (r *resized) size(claim string) int64 {
	return r.Claim(claim).Spec.Resources.Requests.Storage().Value() >> 20
}
