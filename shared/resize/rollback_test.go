package resize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// behind is a volume that the operation has left behind of the claim, kept for an hour.
func behind(name, claim, size string, options ...build.Option) objects {
	was := build.Claim(claim, size)
	return objects{build.Volume(name, was, append([]build.Option{build.Released(), build.Retained(api.RoleRetired, claim),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339))}, options...)...)}
}

// now is a claim of the class fixed, of 128Mi, with its volume.
func now(name string, options ...build.Option) objects {
	return claim(name, "fixed", "128Mi", options...)
}

// fixed is StatefulSet web with templates of 128Mi, which has got them by a resize.
func fixed(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "128Mi", "fixed"),
		build.Resize("data=128Mi")}, options...)...)}
}

// resized is the record of a resize that has moved the claims.
func resized(claims ...string) build.Option {
	return build.Status(build.Operation(api.Succeeded, build.Members(api.MemberMoved, claims...), func(s *api.Resize) {
		for _, move := range s.Moves() {
			move.OldVolume = "pv-old-" + move.Claim[len(move.Claim)-1:]
		}
	}))
}

// expanded is the record of a resize in which the claim has grown on its volume.
func expanded(claim string) build.Option {
	return build.Status(build.Operation(api.Succeeded, func(s *api.Resize) {
		s.Expansions = []api.Expansion{{Claim: claim, Template: "data", Volume: "pv-" + claim, From: resource.MustParse("64Mi"),
			To: resource.MustParse("128Mi"), Done: true}}
	}))
}

// gaveUpRollbackOf is the record of a rollback that failed before it moved the claims.
func gaveUpRollbackOf(claims ...string) build.Option {
	return build.Status(build.Operation(api.Failed, build.Rollback(build.ID), build.Members(api.MemberKept, claims...), func(s *api.Resize) {
		s.Operation, s.FailedAt = "ba9876543210", api.Moving
		for _, move := range s.Moves() {
			move.NewVolume, move.To = "pv-old-"+move.Claim[len(move.Claim)-1:], resource.MustParse("64Mi")
		}
	}))
}

func edit(change func(*corev1.PersistentVolume)) build.Option { return build.Edit(change) }

// words are what a rollback would do.
func words(in Input, w *Wish) string {
	var all []string
	status := w.Operation(in)
	for _, c := range status.Moves() {
		all = append(all, fmt.Sprintf("%s %s: %s to %s%s", c.Claim, &c.To, c.OldVolume, c.NewVolume, c.Class))
	}
	for _, t := range status.Templates {
		all = append(all, fmt.Sprintf("template %s %s", t.Name, &t.Size))
	}
	if status.ReplaceSet {
		all = append(all, "recreate")
	}
	return strings.Join(all, "; ")
}

func TestRollback(t *testing.T) {
	byHand := claim("data-web-1", "fixed", "64Mi", build.On("pv-old-1"))
	byHand[1] = build.VolumeOf(byHand[0].(*corev1.PersistentVolumeClaim), build.Retained(api.RoleRetired, "data-web-1"))
	left0, left1 := behind("pv-old-0", "data-web-0", "64Mi"), behind("pv-old-1", "data-web-1", "64Mi")
	of := func(change func(*api.Link)) build.Option {
		link := api.Link{Operation: build.ID, Role: api.RoleRetired, Namespace: build.Namespace, Set: api.SetRef{Name: "web"},
			Claim: "data-web-0"}
		change(&link)
		return build.LinkOf(link)
	}
	larger := func(s *corev1.PersistentVolume) {
		s.Spec.Capacity = corev1.ResourceList{"storage": resource.MustParse("80Mi")}
	}
	file := golden.Open(t)
	rows := map[string]struct {
		in       Input
		problems string
	}{
		"every claim gets its old volume":        {in: given(fixed(), now("data-web-0"), now("data-web-1"), left0, left1)},
		"a claim that came later stays as it is": {in: given(fixed(resized("data-web-0")), now("data-web-0"), now("data-web-1"), left0)},
		"a claim that has grown in place stays":  {in: given(fixed(expanded("data-web-1")), now("data-web-0"), now("data-web-1"), left0)},
		"a claim that is gone":                   {in: given(fixed(resized("data-web-0", "data-web-1")), now("data-web-0"), left0, left1)},
		"the templates fit already":              {in: given(objects{build.Set("web", build.Template("data", "64Mi", "fixed"))}, now("data-web-0"), left0)},
		"another class": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })))},
		"the set was created again": {in: given(fixed(build.UID("uid-2")), now("data-web-0"), left0)},
		"I1: without the document a claim asks for what its volume has": {in: given(fixed(), now("data-web-0"),
			behind("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"the document knows for what it had asked": {in: given(fixed(resized("data-web-0")), now("data-web-0"),
			behind("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"so does that of a rollback which did not take place": {in: given(fixed(gaveUpRollbackOf("data-web-0")), now("data-web-0"),
			behind("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"a document that says nonsense": {in: given(fixed(build.Status(build.Operation(api.Succeeded,
			build.Members(api.MemberMoved, "data-web-0"), func(s *api.Resize) {
				s.Move("data-web-0").OldVolume, s.Move("data-web-0").From = "pv-old-0", resource.MustParse("0")
			}))), now("data-web-0"), left0)},

		"of another operation": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Operation = "ba9876543210" }))), problems: "RollbackImpossible"},
		"of another set": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Set.Name = "db" }))), problems: "RollbackImpossible"},
		"of another claim": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-1", "64Mi")),
			problems: "RollbackImpossible"},
		"a copy that is no old one": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Role = api.RoleTarget }))), problems: "RollbackImpossible"},
		"its window is over": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339)))), problems: "RollbackImpossible"},
		"a link that cannot be read": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			build.Annotation(api.OperationAnnotation, "{"))), problems: "RollbackImpossible"},
		"somebody has put it to use": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"I1: some are not kept any more: the replicas would have data of different times": {
			in: given(fixed(resized("data-web-0", "data-web-1")), now("data-web-0"), now("data-web-1"), left0,
				behind("pv-old-1", "data-web-1", "64Mi", build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"I1: also if no document tells of them": {
			in: given(fixed(), now("data-web-0"), now("data-web-1"), left0, behind("pv-old-1", "data-web-1", "64Mi",
				build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"I1: or if the window of some is over": {
			in: given(fixed(), now("data-web-0"), now("data-web-1"), left0, behind("pv-old-1", "data-web-1", "64Mi",
				build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339)))), problems: "RollbackImpossible"},
		"I1: or if a rollback that did not take place tells that there was one": {
			in: given(fixed(gaveUpRollbackOf("data-web-0", "data-web-1")), now("data-web-0"), now("data-web-1"), left0), problems: "RollbackImpossible"},
		"somebody has put one back by hand: that claim has its old volume, and the rest may follow": {in: given(fixed(), now("data-web-0"),
			left0, byHand)},
		"I1: two were left behind of one claim, and somebody has put one to use: the other may be a copy that was given up": {
			in: given(fixed(), now("data-web-0"), left0, behind("pv-old-x", "data-web-0", "64Mi", build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"I1: two were left behind of one claim, and one is a copy that was given up": {
			in: given(fixed(), now("data-web-0"), now("data-web-1"), left0, behind("pv-old-x", "data-web-0", "64Mi"), left1), problems: "RollbackImpossible"},
		"a resize that was given up, and had moved one of two: that one goes back": {
			in: given(fixed(build.Status(build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-0"),
				build.Members(api.MemberKept, "data-web-1"), func(s *api.Resize) {
					s.FailedAt, s.Move("data-web-0").OldVolume = api.Moving, "pv-old-0"
				}))), now("data-web-0"), claim("data-web-1", "fixed", "64Mi"), left0)},

		"a claim of another owner": {in: given(fixed(), now("data-web-0", build.Label("app", "else")), left0),
			problems: "ForeignClaim"},
		"somebody else's pod": {in: given(fixed(), now("data-web-0"), left0, objects{build.Pod("reports", []string{"data-web-0"})}),
			problems: "ForeignConsumer"},
		"a class that is gone": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "nvme" }))), problems: "UnknownClass"},
		"an owner that nobody knows to pause": {in: given(fixed(build.Owned("Database", "main")), now("data-web-0"), left0),
			problems: "OwnerNotPausable"},
		"a mover that could not run is not needed": {in: given(fixed(build.Annotation(api.MoverAnnotation, "speed: high"),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })), now("data-web-0"), left0)},
		"I1: a raw device is not bound to a claim of files": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }))),
			problems: "RollbackImpossible"},
		"I1: nor one with other attributes": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("silver") }))),
			problems: "RollbackImpossible"},
		"attributes are not taken along to another class": {in: given(fixed(), now("data-web-0",
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })),
			behind("pv-old-0", "data-web-0", "64Mi", edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })))},
		"I1: nor one without class": {in: given(fixed(), now("data-web-0"), behind("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" }))), problems: "RollbackImpossible"},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			w := Rollback(row.in, build.ID)
			found := slices.Concat(w.Problems, PreflightRollback(row.in, w, build.ID))
			if got := reasons(found); got != row.problems {
				t.Errorf("problems %q, want %q", got, row.problems)
			}
			file.Entry(t, name, words(row.in, w)+"\n"+describe(found))
		})
	}
}

// TestI3RollbackHasAnIDOfItsOwn: also where the set has lost its document, and counts from one again.
// Invariants: I3.
func TestI3RollbackHasAnIDOfItsOwn(t *testing.T) {
	in := given(fixed(), now("data-web-0"))
	seen := map[string]string{Read(in).Document(in, api.Refused).Operation: "a resize"}
	for _, operation := range []string{build.ID, "ba9876543210"} {
		id := Rollback(in, operation).Document(in, api.Planned).Operation
		if other := seen[id]; other != "" {
			t.Errorf("the rollback of %s has the id of %s", operation, other)
		}
		seen[id] = "the rollback of " + operation
	}
	again := given(fixed(resized()), now("data-web-0"))
	if id := Rollback(again, build.ID).Document(again, api.Planned).Operation; seen[id] != "" {
		t.Errorf("the next attempt has the id of %s", seen[id])
	}
}
