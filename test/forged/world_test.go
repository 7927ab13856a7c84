package forged

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit/build"
)

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	gone = "data-web-7" // a claim of the set's that does not exist, or that the tenant has just made
	// before is an earlier operation on the set.
	before = "ba9876543210"
)

// world is set web with its claims and volumes, among volumes of others in the same namespace.
type world struct {
	random    *rand.Rand
	observed  *sts.Observed
	operation string
	// foreign says of a volume whose it is, where it is not the set's own; copies are those that were provisioned for the operation.
	foreign map[string]string
	copies  map[string]bool
}

func newWorld(seed uint64) *world {
	genuine := build.Operation(api.Copying, build.Parts(api.ClaimPending, web0, web1), build.Genuine)
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), operation: genuine.Operation, foreign: map[string]string{}, copies: map[string]bool{}}
	first, second := build.Claim(web0, "64Mi"), build.Claim(web1, "64Mi")
	target := build.Claim(api.CopyName(w.operation, web0, 1), "128Mi", build.On("pv-copy"), build.LinkOf(w.link(api.RoleTarget, "web", web0)))
	w.observed = build.World(first, build.VolumeOf(first), second, build.VolumeOf(second), target)
	begun := w.random.IntN(3) > 0
	if begun { // the operation has a journal, and its volumes are held as backup does it
		w.observed.Journals = append(w.observed.Journals, build.Journal(genuine, build.Age(5*time.Minute)))
		for _, name := range []string{web0, web1} {
			v := w.observed.Volumes["pv-"+name]
			build.With(v, build.Held(api.RoleSource, name), build.LinkOf(w.link(api.RoleSource, "web", name)))
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

func (w *world) link(role api.Role, set, claim string) api.Link {
	return api.Link{Operation: w.operation, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: set, UID: types.UID("uid-" + set)}, Claim: claim, Round: 1}
}

// addForeign adds volumes of the namespace that Drydock may observe because a status or a claim names them.
func (w *world) addForeign() {
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
	add("a volume of a claim with the name of a copy", "pv-posing", api.CopyName(w.operation, web0, 1), build.Released())
	add("a volume of a claim with almost the name of a copy", "pv-almost", "drydock-"+w.operation+"-x", build.Released())
	add("a volume in use by another set", "pv-data-db-0", "data-db-0")
	add("an old volume of another set, in its window", "pv-db-old", "data-db-0", build.Released(), before(api.RoleRetired, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-01T13:00:00Z"))
	add("an old volume of another set, whose window is over", "pv-db-over", "data-db-0", build.Released(), before(api.RoleRetired, "db"),
		build.Annotation(api.RetainedUntilAnnotation, "2026-02-01T13:00:00Z"))
	add("a volume that an operation on another set holds", "pv-db-source", "data-db-0", before(api.RoleSource, "db"))
}

func pick[T any](w *world, of ...T) T { return of[w.random.IntN(len(of))] }

func (w *world) volume() string {
	names := []string{"", "pv-none", "pv-" + web0, "pv-" + web1, "pv-copy", "pv-evidence", "pv-before", "pv-gone", "pv-posing", "pv-almost", "pv-data-db-0",
		"pv-db-old", "pv-db-over", "pv-db-source"}
	return pick(w, names...)
}

// forge is a status that is right, but for some fields.
func (w *world) forge() *api.Resize {
	phase := pick(w, api.Copying, api.Copying, api.Switching, api.Starting, api.RollingBack, api.Failed, api.Succeeded, api.Planned)
	part := pick(w, api.ClaimPending, api.ClaimVerified, api.ClaimVerified, api.ClaimSwitched, api.ClaimWarmed, api.ClaimExpanded)
	status := build.Operation(phase, build.Parts(part, web0, web1), build.Due(pick(w, time.Minute, -time.Minute)), build.Genuine)
	status.Claims = status.Claims[:pick(w, 1, 2, 2)]
	if w.random.IntN(2) == 0 {
		build.Quiet(5)(status)
	}
	for i := range status.Claims {
		if c := &status.Claims[i]; c.NewVolume != "" {
			c.NewVolume = "pv-copy"
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

func (w *world) mutate(s *api.Resize) {
	c := &s.Claims[w.random.IntN(len(s.Claims))]
	for _, change := range []func(){
		func() { c.OldVolume = w.volume() }, func() { c.OldVolume = w.volume() },
		func() { c.NewVolume = w.volume() }, func() { c.NewVolume = w.volume() },
		func() {
			c.Name = pick(w, web0, web1, gone, "data-db-0", "evidence", api.CopyName(w.operation, web0, 1))
		},
		func() { c.UID = pick(w, types.UID("uid-"+web0), "uid-"+gone, "uid-of-another-claim", "") },
		func() { c.Phase = pick(w, api.ClaimPending, api.ClaimVerified, api.ClaimSwitched, "Nonsense") },
		func() { c.Method = pick(w, "", api.MethodExpand, api.MethodRollback, api.MethodCopy) },
		func() {
			s.Method, s.Kind = pick(w, api.MethodCopy, api.MethodExpand), pick(w, api.KindResize, api.KindRollback)
		},
		func() { s.RollsBack = pick(w, before, "aaaaaaaaaaaa", w.operation, "") },
		func() { s.Operation = pick(w, before, "aaaaaaaaaaaa", w.operation) },
		func() { s.Attempt, s.Round = w.random.IntN(4), w.random.IntN(6) },
		func() { s.Set.UID = pick(w, types.UID("uid-web"), "") },
		func() { s.Recreate = w.random.IntN(2) == 0 },
		func() { s.Generation = int64(w.random.IntN(8)) - 1 },
		func() { s.Stopped, s.Stopping = operation.Moment(build.Now), nil },
		func() { s.Replicas = int32(w.random.IntN(4)) },
		func() { s.FailedAt = pick(w, api.Switching, api.Copying, "") },
	}[w.random.IntN(18):] {
		change()
		return
	}
}

// meddle changes what else a tenant can write: claims with any name, volume name and annotations, and their deletion.
func (w *world) meddle() {
	for range w.random.IntN(3) {
		name := pick(w, gone, "evidence", api.CopyName(w.operation, web0, 1), api.CopyName(w.operation, web0, 2), api.CopyName(w.operation, gone, 1), web1)
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
