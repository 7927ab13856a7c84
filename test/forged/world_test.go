package forged

import (
	"fmt"
	"math/rand/v2"
	"time"

	"drydock.dev/shared/world"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	gone = "data-web-7" // a claim of the set's that does not exist, or that the tenant has just made
	// before is an earlier operation on the set.
	before = "ba9876543210"
)

// fixture is set web with its claims and volumes, among volumes of others in the same namespace.
type fixture struct {
	random    *rand.Rand
	observed  *world.Observed
	operation string
	// foreign says of a volume whose it is, where it is not the set's own; copies are those that were provisioned for the operation.
	foreign map[string]string
	copies  map[string]bool
}

func newWorld(seed uint64) *fixture {
	genuine := build.Operation(api.Moving, build.Members(api.MemberPending, web0, web1), build.Genuine)
	w := &fixture{random: rand.New(rand.NewPCG(seed, 1)), operation: genuine.Operation, foreign: map[string]string{}, copies: map[string]bool{}}
	first, second := build.Claim(web0, "64Mi"), build.Claim(web1, "64Mi")
	target := build.Claim(api.TargetName(w.operation, web0, 0), "128Mi", build.On("pv-copy"), build.LinkOf(w.link(api.RoleTarget, "web", web0)))
	w.observed = build.World(first, build.VolumeOf(first), second, build.VolumeOf(second), target, build.Node())
	begun := w.random.IntN(3) > 0
	if begun { // the operation has a journal, and its volumes are held as backup does it
		w.observed.Journals = append(w.observed.Journals, build.Journal(genuine, build.Age(5*time.Minute)))
		for _, name := range []string{web0, web1} {
			v := w.observed.Volumes["pv-"+name]
			build.With(v, build.Retained(api.RoleSource, name), build.LinkOf(w.link(api.RoleSource, "web", name)))
		}
		w.observed.Volumes["pv-copy"] = build.VolumeOf(target, build.Age(2*time.Minute))
		w.copies["pv-copy"] = true
	}
	w.addForeign()
	if begun && w.random.IntN(3) == 0 { // the tenant deletes a claim in the middle
		w.observed.Claims = w.observed.Claims[1:]
		build.Released()(w.observed.Volumes["pv-"+web0])
	}
	return w
}

func (w *fixture) link(role api.Role, set, claim string) api.Link {
	return api.Link{Operation: w.operation, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: set, UID: types.UID("uid-" + set)}, Claim: claim}
}

// addForeign adds volumes of the namespace that Drydock may observe because a status or a claim names them.
func (w *fixture) addForeign() {
	keeps := build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	add := func(why, name, claim string, options ...build.Option) {
		last := build.Claim(claim, "64Mi", build.UID("uid-of-another-claim"))
		w.observed.Volumes[name] = build.Volume(name, last, append([]build.Option{keeps, build.Age(time.Hour)}, options...)...)
		w.foreign[name] = why
	}
	before := func(role api.Role, set string) build.Option {
		link := w.link(role, set, web0)
		link.Operation = "aaaaaaaaaaaa"
		return build.LinkOf(link)
	}
	add("a volume that an administrator kept", "pv-evidence", "evidence", build.Released())
	add("a volume that a claim of the set's had before", "pv-before", web0, build.Released())
	add("a volume that a deleted claim of the set's had", "pv-gone", gone, build.Released())
	add("a volume of a claim with the name of a copy", "pv-posing", api.TargetName(w.operation, web0, 0), build.Released())
	add("a volume of a claim with almost the name of a copy", "pv-almost", "drydock-"+w.operation+"-x", build.Released())
	add("a volume in use by another set", "pv-data-db-0", "data-db-0")
	add("an old volume of another set, in its window", "pv-db-old", "data-db-0", build.Released(), before(api.RoleRetired, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-01T13:00:00Z"))
	add("an old volume of another set, whose window is over", "pv-db-over", "data-db-0", build.Released(), before(api.RoleRetired, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-02-01T13:00:00Z"))
	add("a volume that an operation on another set holds", "pv-db-source", "data-db-0", before(api.RoleSource, "db"))
}

func pick[T any](w *fixture, of ...T) T { return of[w.random.IntN(len(of))] }

func (w *fixture) volume() string {
	names := []string{"", "pv-none", "pv-" + web0, "pv-" + web1, "pv-copy", "pv-evidence", "pv-before", "pv-gone", "pv-posing", "pv-almost", "pv-data-db-0",
		"pv-db-old", "pv-db-over", "pv-db-source"}
	return pick(w, names...)
}

// forge is a status that is right, but for some fields.
func (w *fixture) forge() *api.Resize {
	phase := pick(w, api.Moving, api.Moving, api.Moving, api.Finishing, api.Reverting, api.Failed, api.Succeeded, api.Planned)
	status := build.Operation(phase, build.Members(w.memberPhase(), web0), build.Members(w.memberPhase(), web1), build.Due(pick(w, time.Minute, -time.Minute)), build.Genuine)
	status.Members = status.Members[:pick(w, 1, 2, 2)]
	for _, move := range status.Moves() {
		if move.NewVolume != "" || w.random.IntN(3) == 0 {
			move.NewVolume = "pv-copy"
		}
	}
	for range w.random.IntN(5) {
		w.mutate(status)
	}
	if w.random.IntN(4) > 0 && status.Operation == w.operation {
		return status // with the id that was right before
	}
	if w.random.IntN(2) == 0 {
		build.Genuine(status)
	}
	return status
}

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
		func() { move.Digest = pick(w, "", "digest") },
		func() { move.Copies = w.random.IntN(3) },
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
	return pick(w, api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass, api.MemberSwapping, api.MemberSwapping,
		api.MemberStarting, api.MemberMoved, api.MemberKept)
}

// pods are those of the members: they run, or Drydock holds them, or they have stopped.
func (w *fixture) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for ordinal := range 2 {
		pod := build.PodOf("web", ordinal, "data")
		held := api.Link{Operation: w.operation, Role: api.RoleHeld, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Member: &ordinal}
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

// meddle changes what else a tenant can write: claims with any name, volume name and annotations, and their deletion.
func (w *fixture) meddle() {
	w.observed.Pods = w.pods()
	for range w.random.IntN(3) {
		name := pick(w, gone, "evidence", api.TargetName(w.operation, web0, 0), api.TargetName(w.operation, web0, 1), api.TargetName(w.operation, gone, 0), web1)
		if w.observed.Claim(name) != nil {
			continue
		}
		claim := build.Claim(name, "64Mi", build.UID("uid-of-a-tenants-claim"), build.On(w.volume()), build.Pending())
		if w.random.IntN(2) == 0 {
			role := pick(w, api.RoleTarget, api.RoleSource, api.RoleSuccessor)
			build.LinkOf(w.link(role, "web", pick(w, web0, web1, gone)))(claim)
		}
		w.observed.Claims = append(w.observed.Claims, claim)
	}
	if w.random.IntN(4) == 0 {
		claim := w.observed.Claims[w.random.IntN(len(w.observed.Claims))]
		claim.DeletionTimestamp = &metav1.Time{Time: build.Now}
		claim.Finalizers = pick(w, []string{api.SwitchFinalizer}, []string{"kubernetes.io/pvc-protection"})
	}
	if w.random.IntN(8) == 0 {
		w.observed.Journals = nil // an administrator deletes it
	}
	for i := range w.observed.Claims { // what comes of names is unique
		w.observed.Claims[i].ResourceVersion = fmt.Sprint("rv-", w.observed.Claims[i].Name)
	}
}
