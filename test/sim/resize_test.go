//go:build cluster

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// interference is an action of a user at write k.
type interference func(w *kit.World)

// disturbance is an action of another client at a write of a resize.
type disturbance struct {
	act interference
	// loses: the client asks for a loss of data.
	loses bool
	// replaces: the client replaces the set, so the record may be gone, too.
	replaces bool
	// ends reverts the action as soon as the resize waits for that.
	ends interference
}

// method is a kind of resize.
type method struct {
	name, request string
	set           func() setType
	// rolling stops one member at a time.
	rolling bool
	// before changes the world before the operation. It may be nil.
	before func(w *kit.World)
	// growth is how the storage expands volumes.
	growth kit.Growth
}

var methods = []method{
	{name: "copy", request: "data=128Mi", set: func() setType { return newSet() }},
	{name: "expand", request: "data=128Mi", set: func() setType { return growing() }},
	{name: "expand while held", request: "data=128Mi", set: func() setType { return offline() }, rolling: true, growth: kit.GrowsDetached},
	{name: "attributes", request: "data=64Mi%" + kit.Attributes, set: func() setType { return newSet() }},
	{name: "expand and copy", request: "data=128Mi,logs=64Mi@" + kit.OtherClass, set: func() setType { return growing("logs") }},
	{name: "shrink", request: "data=32Mi", set: func() setType { return newSet() }},
	{name: "another class and access mode", request: "data=64Mi@" + kit.OtherClass + ":RWX", set: func() setType { return newSet() }},
	{name: "rolling", request: "data=128Mi@" + kit.OtherClass, set: func() setType { return two() }, rolling: true},
	{name: "two together", request: "data=128Mi", set: func() setType { return two() }},
	{name: "fields", request: "data/labels/tier=gold,serviceName=other,-logs", set: func() setType { return newSet("logs") }},
	{name: "block", request: "data=128Mi", set: func() setType { return raw() }},
	{name: "rollback", request: "data=128Mi", set: func() setType { return newSet() }, before: resizedAndRegretted},
}

// resizedAndRegretted resizes the set, loses its record, and requests the old volume.
func resizedAndRegretted(w *kit.World) {
	drive := w.Drive(nil)
	done := w.Finish(drive, "web")
	w.Eventually("the owner is resumed", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return paused(w)
	})
	w.Node.AcceptOldData("data-web-0", done.Moves()[0].OldVolume)
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:%q}}}`, api.StatusAnnotation, api.RollbackAnnotation,
		resize.RollbackOrder(w.Set("web"), nil, done.Operation, time.Now())))
}

// two returns a set with two members.
func two() setType {
	set := newSet()
	set.Spec.Replicas = ptr.To[int32](2)
	return set
}

// raw returns a set whose pods use a claim as a block device.
func raw() setType {
	set := newSet()
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	set.Spec.Template.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	return set
}

func growing(more ...string) setType {
	set := newSet(more...)
	for i := range set.Spec.VolumeClaimTemplates {
		set.Spec.VolumeClaimTemplates[i].Spec.StorageClassName = ptr.To(kit.GrowingClass)
	}
	return set
}

// offline returns a set with two members whose volumes expand only while detached.
func offline() setType {
	set := growing()
	set.Spec.Replicas = ptr.To[int32](2)
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpandOffline)
	return set
}

// disturbances returns the actions of other clients, by name. A rollback has none: the pod of another client would write to discarded
// volumes, and then no data is the newest.
func (m method) disturbances() map[string]disturbance {
	if m.before != nil {
		return nil
	}
	all := map[string]disturbance{
		"a user scales the set up": {act: func(w *kit.World) { w.TryScale("web", 3) }},
		"a user scales the set up and down again": {loses: true, act: func(w *kit.World) {
			w.TryScale("web", 3)
			w.TryScale("web", 0) // with whenScaled Delete
		}},
		"a user deletes the set and applies it again": {replaces: true, act: func(w *kit.World) {
			applyAgain(w, m.set(),
				metav1.DeletePropagationBackground)
		}},
		"a user replaces the set around its pods": {replaces: true, act: func(w *kit.World) {
			applyAgain(w, m.set(), metav1.DeletePropagationOrphan)
		}},
		"a user deletes the pod by force": {act: func(w *kit.World) { w.ForceDeletePod("web-0") }},
		"a user takes the hold off": {act: func(w *kit.World) {
			w.Allow(http.StatusForbidden, api.Restore, "the hold may go just before restore deletes the pod")
			w.ReleasePod("web-0")
		}},
		"a user deletes the claim of a running pod": {act: func(w *kit.World) {
			if w.PodRuns("web-0") && !leavesWithPod(w) { // else it is gone at once, and the set gets an empty claim
				w.TryDeleteClaim("data-web-0")
			}
		}},
	}
	if m.rolling {
		all["a user allows no disruption for a while"] = disturbance{
			act: func(w *kit.World) { w.CreateBudget("web", 0) }, ends: func(w *kit.World) { w.CreateBudget("web", 1) }}
	}
	return all
}

// leavesWithPod reports whether pod web-0 is being stopped for other claims than data-web-0. Drydock does not restore
// such a claim.
func leavesWithPod(w *kit.World) bool {
	record := w.Status("web")
	return record != nil && record.Active() && record.Member(0) != nil && isStopped(record.Member(0)) && record.Move("data-web-0") == nil
}

func applyAgain(w *kit.World, set setType, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	sets := w.Kube.AppsV1().StatefulSets(w.Namespace)
	err := sets.Delete(context.Background(), "web", metav1.DeleteOptions{PropagationPolicy: &propagation})
	if err != nil && !apierrors.IsNotFound(err) { // Drydock may be between its own deletion and its creation
		w.T.Errorf("the user cannot delete the set, so this schedule is not disturbed: %v", err)
		return
	}
	set.Namespace = w.Namespace
	for range 100 {
		if _, err = sets.Create(context.Background(), set, metav1.CreateOptions{}); err == nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	if w.Set("web") == nil { // otherwise, Drydock has created it meanwhile
		w.T.Errorf("the user cannot create the set again: %v", err)
	}
}

// Invariants: I1, I2, I4, I5, I6, I9.
func TestResizeSurvivesEverySabotage(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, what := range kit.Sabotages {
			for _, k := range schedules(t, n) {
				schedule(t, fmt.Sprintf("%s write %d", what, k), func(t *testing.T) { sabotaged(t, m, history{}, k, what) })
			}
		}
	})
}

// Invariants: I1, I3, I4, I9.
func TestResizeSurvivesOthers(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for name, d := range m.disturbances() {
			for _, k := range schedules(t, n) {
				schedule(t, fmt.Sprintf("%s after write %d", name, k), func(t *testing.T) { interfered(t, m, k, d) })
			}
		}
	})
}

// TestResizeWithLostEvents: no function receives the events of another one, and one of them dies.
// Invariants: I6.
func TestResizeWithLostEvents(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("dies after write %d", k), func(t *testing.T) { sabotaged(t, m, history{drop: true}, k, kit.DieAfter) })
		}
	})
}

// TestResizeWithRepeatedAndReorderedEvents delivers every event twice, in random order, with a random failure of one
// write.
// Invariants: I7.
func TestResizeWithRepeatedAndReorderedEvents(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, chance := range seeds(t, n) {
			dice := rand.New(rand.NewPCG(chance, 1))
			k, what := 1+dice.IntN(n), kit.Sabotages[dice.IntN(len(kit.Sabotages))]
			schedule(t, fmt.Sprintf("seed %d %s write %d", chance, what, k),
				func(t *testing.T) { sabotaged(t, m, history{shuffle: chance}, k, what) })
		}
	})
}

// history is how events are delivered.
type history struct {
	drop    bool
	shuffle uint64
}

func (h history) of(drive *kit.Drive) *kit.Drive {
	drive.DropEvents, drive.Shuffle = h.drop, h.shuffle
	return drive
}

func everyMethod(t *testing.T, try func(t *testing.T, m method, writes int)) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			try(t, m, counted(t, m.name, func() int { return cleanRun(t, m) }))
		})
	}
}

const ownerKind = "Prometheus"

var owner, _ = owners.BuiltIn().Find("monitoring.coreos.com", ownerKind)

// paused returns the difference between the owner now and before the operation, or an empty string.
func paused(w *kit.World) string {
	now := w.Custom(owner, ownerKind, "main")
	if owner.Paused(now) || len(now.GetAnnotations()) != 0 {
		return fmt.Sprintf("the owner is %v", now.Object)
	}
	return ""
}

// cleanRun returns the number of writes of an undisturbed operation.
func cleanRun(t *testing.T, m method) int {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	monitor := monitorOf(w, saboteur, resizeInvariants(m))
	drive := w.Drive(saboteur)
	judge(t, w, drive, w.Finish(drive, "web"), succeeds, *m.set().Spec.Replicas)
	monitor.judge()
	writes := saboteur.Writes()
	t.Logf("%s: %d writes:\n%s", m.name, len(writes), strings.Join(writes, "\n"))
	return len(writes)
}

func newSet(more ...string) setType {
	set := kit.WorldSet("web", 1, "64Mi", append([]string{"data"}, more...)...)
	set.Spec.PersistentVolumeClaimRetentionPolicy = retention()
	return set
}

// newWorld returns a world with a set of a custom resource, which Drydock must pause and resume.
func newWorld(t *testing.T, m method) *kit.World {
	w := world(t)
	w.GrantPause(owner.Operator)
	w.DefineKind(owner, ownerKind)
	resource := w.CreateCustom(owner, ownerKind, "main", map[string]any{"paused": false}, nil)
	w.Node.Set(func(n *kit.Node) { n.Growth = m.growth })
	w.CreateSet(m.set())
	if m.rolling {
		w.CreateBudget("web", 1)
	}
	w.SetController("web", resource)
	asked := map[string]string{api.ResizeAnnotation: m.request}
	if m.rolling {
		asked[api.StrategyAnnotation] = string(api.StrategyRolling)
	}
	w.Annotate("web", asked)
	if m.before != nil {
		m.before(w)
	}
	return w
}

func sabotaged(t *testing.T, m method, h history, k int, what kit.Sabotage) {
	w := newWorld(t, m)
	saboteur, fresh := &kit.Saboteur{At: k, Failure: what}, &kit.Saboteur{}
	monitor, after := monitorOf(w, saboteur, resizeInvariants(m)), monitorOf(w, fresh, resizeInvariants(m))
	drive := h.of(w.Drive(saboteur))
	w.Eventually("the sabotage has happened", func() string {
		_ = drive.Tick(context.Background()) // a dead process returns an error for every call
		status := w.Status("web")
		if len(saboteur.Writes()) >= k || status != nil && status.Phase.Terminal() && len(w.Leftovers()) == 0 {
			return ""
		}
		return "it has not"
	})
	noteDisturbed(t, len(saboteur.Writes()) >= k)
	drive = h.of(w.Drive(fresh))
	judge(t, w, drive, w.Finish(drive, "web"), succeeds, *m.set().Spec.Replicas)
	monitor.judge()
	after.judge()
}

func interfered(t *testing.T, m method, k int, d disturbance) {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	monitor := monitorOf(w, saboteur, disturbedInvariants(m))
	monitor.loses = d.loses
	done, before, may := false, []string(nil), mayFail
	if d.replaces {
		may = mayBeForgotten
	}
	saboteur.OnWrite = func(write string) {
		if !done && len(saboteur.Writes()) >= k {
			done = true
			d.act(w)
			before = w.UnavailablePods("web", int(*m.set().Spec.Replicas))
		}
		if d.ends != nil && done {
			monitor.budget(write, before)
		}
		monitor.look(write)
	}
	drive := w.Drive(saboteur)
	w.Eventually("the operation ends and nothing is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		status := w.Status("web")
		if d.ends != nil && done && waitsForBudget(status) {
			d.ends(w)
			d.ends = nil
		}
		if wrong := may.wrong(status); wrong != "" {
			return wrong
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	noteDisturbed(t, done)
	set := w.Set("web")
	if set == nil {
		t.Fatal("the set is gone")
	}
	judge(t, w, drive, w.Status("web"), may, *m.set().Spec.Replicas, 3, 0)
	monitor.judge()
}

// waitsForBudget reports whether a PodDisruptionBudget keeps the resize from stopping a member. The message quotes the
// API server.
func waitsForBudget(record *api.Resize) bool {
	return record != nil && record.Reason == api.GateClosed && strings.Contains(record.Message, "disruption budget")
}

// judge checks the invariants at the end of an operation. A tick has done the remaining work.
func judge(t *testing.T, w *kit.World, drive *kit.Drive, status *api.Resize, may outcome, replicas ...int32) {
	t.Helper()
	if wrong := may.wrong(status); wrong != "" {
		t.Error(wrong)
	}
	set := w.Set("web")
	if status != nil && status.Phase == api.Succeeded && !status.IsRollback() && len(statefulset.Unmet(set, status.Fields)) > 0 {
		t.Errorf("the set lacks %v", api.Words(statefulset.Unmet(set, status.Fields)))
	}
	if !slices.Contains(replicas, *set.Spec.Replicas) {
		t.Errorf("I4: %d replicas", *set.Spec.Replicas)
	}
	if set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled != "Delete" {
		t.Errorf("whenScaled is %s, it was Delete", set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled)
	}
	w.Eventually("the set is ready", func() string {
		if s := w.Set("web"); s.Status.ReadyReplicas != *s.Spec.Replicas {
			return "it is not"
		}
		return ""
	})
	var claims []string
	for _, t := range set.Spec.VolumeClaimTemplates {
		for ordinal := range replicas[0] {
			claims = append(claims, fmt.Sprintf("%s-web-%d", t.Name, ordinal))
		}
	}
	if *set.Spec.Replicas == 0 {
		claims = nil // scaled down after the operation, with whenScaled Delete: the user asked for it
	}
	for _, problem := range w.ClaimProblems(claims...) {
		t.Error(problem)
	}
	w.Eventually("nothing is left behind (I9), and the owner is not paused (I5)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if left := w.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		return paused(w)
	})
}
