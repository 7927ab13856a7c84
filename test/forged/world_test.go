package forged

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	gone = "data-web-7" // a claim of the set that does not exist, or that the tenant has just created
	// before is an earlier operation on the set.
	before = "ba9876543210"
)

// fixture is set web with its claims and volumes, among foreign volumes in the same namespace.
type fixture struct {
	random    *rand.Rand
	observed  *world.Observed
	operation string
	// foreign describes each volume that is not the set's own. copies are the volumes that were provisioned for the operation.
	foreign map[string]string
	copies  map[string]bool
}

func newWorld(seed uint64) *fixture {
	genuine := build.Operation(api.Moving, build.Members(api.MemberPending, web0, web1), build.DerivedID)
	w := &fixture{random: rand.New(rand.NewPCG(seed, 1)), operation: genuine.Operation, foreign: map[string]string{},
		copies: map[string]bool{}}
	first, second := build.Claim(web0, "64Mi"), build.Claim(web1, "64Mi")
	target := build.Claim(api.TargetName(w.operation, web0, 0), "128Mi", build.BoundTo("pv-copy"), build.LinkOf(w.link(api.RoleTarget, "web",
		web0)))
	w.observed = build.World(first, build.VolumeOf(first), second, build.VolumeOf(second), target, build.Node())
	begun := w.random.IntN(3) > 0
	if begun { // the operation has a journal, and backup has linked and retained its volumes
		w.observed.Journals = append(w.observed.Journals, build.Journal(genuine, build.Age(5*time.Minute)))
		for _, name := range []string{web0, web1} {
			v := w.observed.Volumes["pv-"+name]
			build.With(v, build.Retained(api.RoleSource, name), build.LinkOf(w.link(api.RoleSource, "web", name)))
		}
		w.observed.Volumes["pv-copy"] = build.VolumeOf(target, build.Age(2*time.Minute))
		w.copies["pv-copy"] = true
	}
	w.addForeign()
	if begun && w.random.IntN(3) == 0 { // the tenant deletes a claim during the operation
		w.observed.Claims = w.observed.Claims[1:]
		build.Released()(w.observed.Volumes["pv-"+web0])
	}
	return w
}

func (w *fixture) link(role api.Role, set, claim string) api.Link {
	return api.Link{Operation: w.operation, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: set,
		UID: types.UID("uid-" + set)}, Claim: claim}
}

// addForeign adds volumes that Drydock may observe because a record or a claim names them.
func (w *fixture) addForeign() {
	retain := build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	add := func(why, name, claim string, options ...build.Option) {
		last := build.Claim(claim, "64Mi", build.UID("uid-of-another-claim"))
		w.observed.Volumes[name] = build.Volume(name, last, append([]build.Option{retain, build.Age(time.Hour)}, options...)...)
		w.foreign[name] = why
	}
	before := func(role api.Role, set string) build.Option {
		link := w.link(role, set, web0)
		link.Operation = "aaaaaaaaaaaa"
		return build.LinkOf(link)
	}
	add("a volume that an administrator retained", "pv-evidence", "evidence", build.Released())
	add("an earlier volume of a claim of the set", "pv-before", web0, build.Released())
	add("the volume of a deleted claim of the set", "pv-gone", gone, build.Released())
	add("a volume of a claim with the name of a temporary claim", "pv-posing", api.TargetName(w.operation, web0, 0), build.Released())
	add("a volume of a claim with almost the name of a temporary claim", "pv-almost", "drydock-"+w.operation+"-x", build.Released())
	add("a volume in use by another set", "pv-data-db-0", "data-db-0")
	add("a retained old volume of another set", "pv-db-old", "data-db-0", build.Released(), before(api.RoleOldVolume, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-01T13:00:00Z"))
	add("an old volume of another set after its retention", "pv-db-over", "data-db-0", build.Released(), before(api.RoleOldVolume, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-02-01T13:00:00Z"))
	add("a volume that an operation on another set holds", "pv-db-source", "data-db-0", before(api.RoleSource, "db"))
}

// pick returns one of the values at random.
func pick[T any](w *fixture, values ...T) T { return values[w.random.IntN(len(values))] }

// volume returns the name of a volume at random.
func (w *fixture) volume() string {
	names := []string{"", "pv-none", "pv-" + web0, "pv-" + web1, "pv-copy", "pv-evidence", "pv-before", "pv-gone", "pv-posing",
		"pv-almost", "pv-data-db-0",
		"pv-db-old", "pv-db-over", "pv-db-source"}
	return pick(w, names...)
}

// forge returns a record that is genuine except for some fields.
func (w *fixture) forge() *api.Resize {
	phase := pick(w, api.Moving, api.Moving, api.Moving, api.Finishing, api.Reverting, api.Failed, api.Succeeded, api.Planned)
	record := build.Operation(phase, build.Members(w.memberPhase(), web0), build.Members(w.memberPhase(), web1),
		build.Due(pick(w, time.Minute, -time.Minute)), build.DerivedID)
	record.Members = record.Members[:pick(w, 1, 2, 2)]
	for _, move := range record.Moves() {
		if move.NewVolume != "" || w.random.IntN(3) == 0 {
			move.NewVolume = "pv-copy"
		}
	}
	for range w.random.IntN(5) {
		w.mutate(record)
	}
	if w.random.IntN(4) > 0 && record.Operation == w.operation {
		return record // with an id that does not match the changed fields
	}
	if w.random.IntN(2) == 0 {
		build.DerivedID(record)
	}
	return record
}

// mutate changes one field of the record at random.
func (w *fixture) mutate(s *api.Resize) {
	member := &s.Members[w.random.IntN(len(s.Members))]
	move := &member.Claims[0]
	pick(w, []func(){
		func() { move.OldVolume = w.volume() }, func() { move.OldVolume = w.volume() },
		func() { move.NewVolume = w.volume() }, func() { move.NewVolume = w.volume() },
		func() {
			move.Claim = pick(w, web0, web1, gone, "data-db-0", "evidence", api.TargetName(w.operation, web0, 0))
		},
		func() { move.UID = pick(w, types.UID("uid-"+web0), "uid-"+gone, "uid-of-another-claim", "") },
		func() { move.Verified = pick(w, false, true) },
		func() { move.Copies = w.random.IntN(3) },
		func() { move.InPlace = !move.InPlace },
		func() { member.Phase = pick(w, w.memberPhase(), "Nonsense") },
		func() { member.Ordinal = pick(w, 0, 1, 7) },
		func() { member.Pod = pick(w, types.UID("uid-web-0"), "uid-web-1", "uid-of-another-pod", "") },
		func() { member.Locked = !member.Locked },
		func() { member.Attempt = w.random.IntN(4) },
		func() { s.Kind = pick(w, api.KindResize, api.KindRollback) },
		func() { s.RollsBack = pick(w, before, "aaaaaaaaaaaa", w.operation, "") },
		func() { s.Operation = pick(w, before, "aaaaaaaaaaaa", w.operation) },
		func() { s.Attempt = w.random.IntN(4) },
		func() { s.Set.UID = pick(w, types.UID("uid-web"), "") },
		func() { s.ReplaceSet = w.random.IntN(2) == 0 },
		func() { s.Strategy = pick(w, api.StrategyWhole, api.StrategyRolling, "nonsense") },
		func() { s.FailedAt = pick(w, api.Moving, api.Planned, "") },
	}...)()
}

func (w *fixture) memberPhase() api.MemberPhase {
	return pick(w, api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass, api.MemberGrowing,
		api.MemberSwapping, api.MemberSwapping, api.MemberStarting, api.MemberMoved, api.MemberKept)
}

// pods returns the pods of the members. Each runs, is held, is held and has ended, or does not exist.
func (w *fixture) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for ordinal := range 2 {
		pod := build.PodOf("web", ordinal, "data")
		held := api.Link{Operation: w.operation, Role: api.RoleHeld, Namespace: build.Namespace, Set: api.SetRef{Name: "web",
			UID: "uid-web"}, Member: &ordinal}
		switch w.random.IntN(4) {
		case 0:
			continue
		case 1:
			build.With(pod, build.Finalizers(api.HoldFinalizer), build.LinkOf(held), build.Stopped())
		case 2:
			build.With(pod, build.Finalizers(api.HoldFinalizer), build.LinkOf(held))
		}
		pods = append(pods, pod)
	}
	return pods
}

// changeOtherObjects changes other objects that a tenant can write: it creates claims with any name, volume and annotations, and deletes
// claims.
func (w *fixture) changeOtherObjects() {
	w.observed.Pods = w.pods()
	for range w.random.IntN(3) {
		name := pick(w, gone, "evidence", api.TargetName(w.operation, web0, 0), api.TargetName(w.operation, web0, 1),
			api.TargetName(w.operation, gone, 0), web1)
		if w.observed.Claim(name) != nil {
			continue
		}
		claim := build.Claim(name, "64Mi", build.UID("uid-of-a-tenants-claim"), build.BoundTo(w.volume()), build.Pending())
		if w.random.IntN(2) == 0 {
			role := pick(w, api.RoleTarget, api.RoleSource, api.RoleNewClaim)
			build.LinkOf(w.link(role, "web", pick(w, web0, web1, gone)))(claim)
		}
		w.observed.Claims = append(w.observed.Claims, claim)
	}
	if w.random.IntN(4) == 0 {
		claim := w.observed.Claims[w.random.IntN(len(w.observed.Claims))]
		claim.DeletionTimestamp = &metav1.Time{Time: build.Now}
		claim.Finalizers = pick(w, []string{api.FreezeFinalizer}, []string{"kubernetes.io/pvc-protection"})
	}
	if w.random.IntN(8) == 0 {
		w.observed.Journals = nil // an administrator deletes the journal
	}
	for i := range w.observed.Claims { // each claim has its own version
		w.observed.Claims[i].ResourceVersion = fmt.Sprint("rv-", w.observed.Claims[i].Name)
		w.observed.Claims[i] = build.After(w.observed.Claims[i])
	}
	for name, v := range w.observed.Volumes { // the API server sends no empty maps
		w.observed.Volumes[name] = build.After(v)
	}
	for i, pod := range w.observed.Pods {
		w.observed.Pods[i] = build.After(pod)
	}
}
