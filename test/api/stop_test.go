package api

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// stop is a place of a resize at which it can be held, so that something happens to it just there.
type stop struct {
	phase api.Phase
	// growing: the claims are of a class that grows in place; else they are copied.
	growing bool
	// halt has the operation come no further, begin drives it, at reports whether it has got there, release lets it go on.
	halt, release func(w *kit.World)
	begin         func(w *kit.World) *kit.Drive
	at            func(w *kit.World, status *api.Resize) bool
}

// What the tables of this package call the stops.
const (
	growsNow    = "while claims grow"
	plannedNow  = "before the owner consents"
	warmNow     = "while the first copy is made"
	quiescedNow = "while the stopped set is copied"
	verifiedNow = "when everything is copied"
	switchNow   = "when one claim is switched and the other is not"
	startNow    = "while the set starts"
)

var stops = map[string]stop{
	growsNow: {phase: api.Expanding, growing: true, begin: undisturbed, at: anywhere,
		halt:    func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater }) },
		release: func(w *kit.World) { w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline }) }},
	plannedNow: {phase: api.Planned, begin: dies, at: anywhere, halt: nothing, release: nothing},
	warmNow: {phase: api.Copying, begin: undisturbed, at: moversRun(0),
		halt: func(w *kit.World) { holdWarm(w, true) }, release: func(w *kit.World) { holdWarm(w, false) }},
	quiescedNow: {phase: api.Copying, begin: undisturbed, at: moversRun(1),
		halt: func(w *kit.World) { hold(w, true) }, release: func(w *kit.World) { hold(w, false) }},
	verifiedNow: {phase: api.Switching, begin: diesWhenCopied, at: anywhere, halt: nothing, release: nothing},
	switchNow: {phase: api.Switching, begin: keepsTemporaryClaim, at: oneIsSwitched, halt: nothing,
		release: func(w *kit.World) { keepClaim(w, false) }},
	startNow: {phase: api.Starting, begin: withoutPods, at: anywhere, halt: nothing,
		release: func(w *kit.World) { w.CreateQuota(corev1.ResourcePods, "100") }},
}

func nothing(*kit.World) {}

func anywhere(*kit.World, *api.Resize) bool { return true }

func undisturbed(w *kit.World) *kit.Drive { return w.Drive(nil) }

// dies is a process that ends as soon as it has written down that there is an operation.
func dies(w *kit.World) *kit.Drive { return w.Drive(&kit.Saboteur{At: 1, What: kit.DieAfter}) }

// diesWhenCopied is one that ends when every copy is verified, before anything is done with them.
func diesWhenCopied(w *kit.World) *kit.Drive {
	dies := &kit.Saboteur{What: kit.DieBefore}
	dies.OnWrite = func(string) {
		if status := w.Status("web"); dies.At == 0 && status != nil && status.Phase == api.Switching {
			dies.At = len(dies.Writes()) + 1
		}
	}
	return w.Drive(dies)
}

// withoutPods lets no pod be created any more once the copies are made.
func withoutPods(w *kit.World) *kit.Drive {
	drive := w.Drive(nil)
	drive.Passed = func(e event.Event) {
		if e.Type() == events.BackupCompleted {
			w.CreateQuota(corev1.ResourcePods, "0")
		}
	}
	return drive
}

// moversRun: those of the round, 0 while the set runs.
func moversRun(round int) func(*kit.World, *api.Resize) bool {
	return func(w *kit.World, _ *api.Resize) bool {
		running := 0
		pods := movers(w.T, w)
		for i := range pods {
			if link, err := api.LoadLink(&pods[i]); err == nil && link.Round == round && pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 2
	}
}

// oneIsSwitched: the other claim is marked by our finalizer, and waits for its new volume.
func oneIsSwitched(w *kit.World, status *api.Resize) bool {
	kept, other := w.Claim("data-web-0"), w.Claim("data-web-1")
	return kept != nil && slices.Contains(kept.Finalizers, api.SwitchFinalizer) && other != nil && other.Status.Phase == corev1.ClaimBound &&
		other.Spec.VolumeName == status.Claim("data-web-1").NewVolume
}

// keeper is a finalizer as backup tools put on claims.
const keeper = "example.com/keep"

// keepsTemporaryClaim has somebody keep the temporary claim of data-web-0 once its copy is verified, so that its volume does not get free.
func keepsTemporaryClaim(w *kit.World) *kit.Drive {
	drive := w.Drive(nil)
	drive.Passed = func(e event.Event) {
		if e.Type() == events.BackupCompleted {
			keepClaim(w, true)
		}
	}
	return drive
}

// keepClaim puts the keeper on the temporary claim of data-web-0, or takes it off.
func keepClaim(w *kit.World, keep bool) {
	w.T.Helper()
	w.Eventually("somebody's finalizer is on the claim, or off it", func() string {
		claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: api.OperationLabel})
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

// set is one that can be held at the stop.
func (s stop) set() *appsv1.StatefulSet {
	if s.growing {
		return growingSet(2, "data")
	}
	return kit.WorldSet("web", 2, "64Mi", "data")
}

// resized is a world with a resize of a set that an operator's resource controls.
type resized struct {
	*kit.World
	stop  stop
	row   owners.Row
	owner map[string]any // as it was before
	claim []string
}

// newResized has a set whose resize will come as far as the stop. What is given changes world and set before.
func newResized(t *testing.T, s stop, changes ...func(*kit.World, *appsv1.StatefulSet)) *resized {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "monitoring.coreos.com", "Prometheus")
	w.MayPause(row.Operator)
	w.DefineKind(row, "Prometheus")
	owner := w.CreateCustom(row, "Prometheus", "main", map[string]any{"paused": false}, nil)
	set := s.set()
	for _, change := range changes {
		change(w, set)
	}
	w.CreateSet(set)
	w.OwnedBy("web", owner)
	r := &resized{World: w, stop: s, row: row, owner: content(owner), claim: []string{"data-web-0", "data-web-1"}}
	s.halt(w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	return r
}

// reach drives the resize as far as the stop, or to its failure there, and returns who is to go on.
func (r *resized) reach() *kit.Drive {
	r.T.Helper()
	drive := r.stop.begin(r.World)
	r.Eventually("the resize is "+string(r.stop.phase), func() string {
		_ = drive.Tick(context.Background()) // one that dies answers with an error
		status := r.Status("web")
		if status == nil || status.FailedAt != r.stop.phase && (status.Phase != r.stop.phase || !r.stop.at(r.World, status)) {
			return describe(status)
		}
		return ""
	})
	next := r.Drive(nil)
	next.Seen = drive.Seen
	return next
}

func describe(status *api.Resize) string {
	if status == nil {
		return "there is no status"
	}
	return string(status.Phase) + " " + string(status.Reason) + ": " + status.Message
}

// expectGivenBack checks what has to be true whenever an operation has ended: the replicas are back (I4), every claim is whole (I1),
// the owner is not paused (I5), nothing is left (I9).
func (r *resized) expectGivenBack(t *testing.T, drive *kit.Drive) {
	t.Helper()
	expectWhole(t, r.World, "web", 2, r.claim...)
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
}

// size is what a claim asks for, in whole Mi: one byte more is an expansion that was taken back.
func (r *resized) size(claim string) int64 {
	return r.Claim(claim).Spec.Resources.Requests.Storage().Value() >> 20
}
