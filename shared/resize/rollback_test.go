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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// oldVolume returns a volume that the operation retired from the claim and that is retained for another hour.
func oldVolume(name, claim, size string, options ...build.Option) objects {
	former := build.Claim(claim, size)
	return objects{build.Volume(name, former, append([]build.Option{build.Released(), build.Retained(api.RoleOldVolume, claim),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339))}, options...)...)}
}

// currentClaim returns a claim of 128Mi and of the class fixed, with its volume.
func currentClaim(name string, options ...build.Option) objects {
	return claim(name, "fixed", "128Mi", options...)
}

// resizedSet returns StatefulSet web after a resize to 128Mi.
func resizedSet(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "128Mi", "fixed"),
		build.Resize("data=128Mi")}, options...)...)}
}

// succeededRecord stores the record of a resize that moved the claims.
func succeededRecord(claims ...string) build.Option {
	return build.Status(build.Operation(api.Succeeded, build.Members(api.MemberMoved, claims...), func(s *api.Resize) {
		for _, move := range s.Moves() {
			move.OldVolume = "pv-old-" + move.Claim[len(move.Claim)-1:]
		}
	}))
}

// expandedRecord stores the record of a resize that expanded the claim in place.
func expandedRecord(claim string) build.Option {
	return build.Status(build.Operation(api.Succeeded, func(s *api.Resize) {
		s.Expansions = []api.Expansion{{Claim: claim, Template: "data", Volume: "pv-" + claim, From: resource.MustParse("64Mi"),
			To: resource.MustParse("128Mi"), Done: true}}
	}))
}

// failedRollbackRecord stores the record of a rollback that failed before it moved the claims.
func failedRollbackRecord(claims ...string) build.Option {
	return build.Status(build.Operation(api.Failed, build.RollbackOf(build.ID), build.Members(api.MemberKept, claims...), func(s *api.Resize) {
		s.Operation, s.FailedAt = "ba9876543210", api.Moving
		for _, move := range s.Moves() {
			move.NewVolume, move.To = "pv-old-"+move.Claim[len(move.Claim)-1:], resource.MustParse("64Mi")
		}
	}))
}

func edit(change func(*corev1.PersistentVolume)) build.Option { return build.Edit(change) }

// describeRollback renders the changes of a rollback on one line.
func describeRollback(in Input, w *Changes) string {
	var all []string
	status := w.Record(in)
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

// TestRollback: every member gets data of the same time, or the rollback is refused.
// Invariants: I1.
func TestRollback(t *testing.T) {
	restoredByHand := claim("data-web-1", "fixed", "64Mi", build.BoundTo("pv-old-1"))
	restoredByHand[1] = build.VolumeOf(restoredByHand[0].(*corev1.PersistentVolumeClaim), build.Retained(api.RoleOldVolume, "data-web-1"))
	left0, left1 := oldVolume("pv-old-0", "data-web-0", "64Mi"), oldVolume("pv-old-1", "data-web-1", "64Mi")
	of := func(change func(*api.Link)) build.Option {
		link := api.Link{Operation: build.ID, Role: api.RoleOldVolume, Namespace: build.Namespace, Set: api.SetRef{Name: "web"},
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
		"every claim gets its old volume": {in: input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), left0, left1)},
		"a claim created after the operation is left alone": {in: input(resizedSet(succeededRecord("data-web-0")), currentClaim("data-web-0"),
			currentClaim("data-web-1"), left0)},
		"a claim that grew in place is left alone": {in: input(resizedSet(expandedRecord("data-web-1")), currentClaim("data-web-0"),
			currentClaim("data-web-1"), left0)},
		"a claim is gone": {in: input(resizedSet(succeededRecord("data-web-0", "data-web-1")),
			currentClaim("data-web-0"), left0, left1)},
		"the templates already fit": {in: input(objects{build.Set("web", build.Template("data", "64Mi", "fixed"))},
			currentClaim("data-web-0"), left0)},
		"an old volume of another class": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })))},
		"the set was created again": {in: input(resizedSet(build.UID("uid-2")), currentClaim("data-web-0"), left0)},
		"without a record, the claim requests the capacity of its old volume": {in: input(resizedSet(), currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"the record knows the former request": {in: input(resizedSet(succeededRecord("data-web-0")), currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"the record of a failed rollback knows the former request, too": {in: input(resizedSet(failedRollbackRecord("data-web-0")),
			currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "64Mi", edit(larger)))},
		"a record with an invalid size": {in: input(resizedSet(build.Status(build.Operation(api.Succeeded,
			build.Members(api.MemberMoved, "data-web-0"), func(s *api.Resize) {
				s.Move("data-web-0").OldVolume, s.Move("data-web-0").From = "pv-old-0", resource.MustParse("0")
			}))), currentClaim("data-web-0"), left0)},

		"a volume of another operation": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Operation = "ba9876543210" }))), problems: "RollbackImpossible"},
		"a volume of another set": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Set.Name = "db" }))), problems: "RollbackImpossible"},
		"a volume of another claim": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-1", "64Mi")),
			problems: "RollbackImpossible"},
		"a copy that is no old volume": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			of(func(l *api.Link) { l.Role = api.RoleTarget }))), problems: "RollbackImpossible"},
		"the retention has expired": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339)))), problems: "RollbackImpossible"},
		"an unreadable link": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			build.Annotation(api.OperationAnnotation, "{"))), problems: "RollbackImpossible"},
		"another claim uses the old volume": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"one of two old volumes is in use": {
			in: input(resizedSet(succeededRecord("data-web-0", "data-web-1")), currentClaim("data-web-0"), currentClaim("data-web-1"), left0,
				oldVolume("pv-old-1", "data-web-1", "64Mi", build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"one of two old volumes is in use, and there is no record": {
			in: input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), left0, oldVolume("pv-old-1", "data-web-1", "64Mi",
				build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"the retention of one of two old volumes has expired": {
			in: input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), left0, oldVolume("pv-old-1", "data-web-1", "64Mi",
				build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339)))), problems: "RollbackImpossible"},
		"the record of a failed rollback names an old volume that is gone": {
			in: input(resizedSet(failedRollbackRecord("data-web-0", "data-web-1")), currentClaim("data-web-0"), currentClaim("data-web-1"),
				left0),
			problems: "RollbackImpossible"},
		"a user has restored one old volume by hand: the other claims can follow": {in: input(resizedSet(),
			currentClaim("data-web-0"),
			left0, restoredByHand)},
		"one claim has two retired volumes, and one of them is in use: the other may be only a copy": {
			in: input(resizedSet(), currentClaim("data-web-0"), left0, oldVolume("pv-old-x", "data-web-0", "64Mi",
				build.TakenBy("debug", "uid-debug"))), problems: "RollbackImpossible"},
		"one claim has two retired volumes, and one of them is only a copy": {
			in: input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), left0, oldVolume("pv-old-x", "data-web-0", "64Mi"),
				left1), problems: "RollbackImpossible"},
		"a failed resize moved one of two members: only that member goes back": {
			in: input(resizedSet(build.Status(build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-0"),
				build.Members(api.MemberKept, "data-web-1"), func(s *api.Resize) {
					s.FailedAt, s.Move("data-web-0").OldVolume = api.Moving, "pv-old-0"
				}))), currentClaim("data-web-0"), claim("data-web-1", "fixed", "64Mi"), left0)},

		"a foreign claim": {in: input(resizedSet(), currentClaim("data-web-0", build.Label("app", "else")), left0),
			problems: "ForeignClaim"},
		"a foreign pod": {in: input(resizedSet(), currentClaim("data-web-0"), left0, objects{build.Pod("reports", []string{"data-web-0"})}),
			problems: "ForeignConsumer"},
		"a class that is gone": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "nvme" }))), problems: "UnknownClass"},
		"an owner that Drydock cannot pause": {in: input(resizedSet(build.ControlledBy("Database", "main")), currentClaim("data-web-0"), left0),
			problems: "OwnerNotPausable"},
		"a mover that cannot run is not needed": {in: input(resizedSet(build.Annotation(api.MoverAnnotation, "speed: high"),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })), currentClaim("data-web-0"), left0)},
		"a raw block volume is not bound to a claim with a file system": {in: input(resizedSet(), currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "64Mi",
				edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }))),
			problems: "RollbackImpossible"},
		"a volume with other attributes is not bound": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0",
			"64Mi",
			edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("silver") }))),
			problems: "RollbackImpossible"},
		"a claim that changes its class loses its attributes": {in: input(resizedSet(), currentClaim("data-web-0",
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })),
			oldVolume("pv-old-0", "data-web-0", "64Mi", edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })))},
		"a volume without a class is not bound": {in: input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi",
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
			file.Entry(t, name, describeRollback(row.in, w)+"\n"+describe(found))
		})
	}
}

// TestRequestedRollback: under an operator, which may copy the annotation again and again, an order counts for one set, and no order counts
// that is older than an answered one.
// Invariants: I7.
func TestRequestedRollback(t *testing.T) {
	owned, free := build.Set("web", build.ControlledBy("Database", "main"), build.UID("uid-now")), build.Set("web", build.UID("uid-now"))
	at := func(ago time.Duration) string { return RollbackOrder(owned, nil, build.ID, build.Now.Add(-ago)) }
	answered := func(order string) *api.Resize {
		return build.Operation(api.Succeeded, func(r *api.Resize) { r.AnsweredRollback = order })
	}
	for name, row := range map[string]struct {
		record  *api.Resize
		value   string
		counts  bool
		unnamed bool
	}{
		"no annotation":                         {record: answered("")},
		"the order":                             {answered(""), at(0), true, false},
		"the record is lost":                    {nil, at(0), true, false},
		"a copy of the order":                   {answered(at(0)), at(0), false, false},
		"a copy of an earlier order":            {answered(at(0)), at(time.Hour), false, false},
		"a later order":                         {answered(at(time.Hour)), at(0), true, false},
		"an answer of a former set":             {answered("ba9876543210@uid-former/99999999999"), at(0), true, false},
		"the order for another set":             {answered(""), build.ID + "@uid-former/1", false, false},
		"an id alone":                           {answered(""), build.ID, false, true},
		"no time":                               {answered(""), build.ID + "@uid-now", false, true},
		"a time that is no number":              {answered(""), build.ID + "@uid-now/now", false, true},
		"a time before all times":               {answered(""), build.ID + "@uid-now/-1", false, true},
		"a text that the record could not hold": {answered(""), strings.Repeat("x", 100) + at(0), false, true},
	} {
		owned.Annotations = map[string]string{api.RollbackAnnotation: row.value}
		free.Annotations = owned.Annotations
		want := ""
		if row.counts {
			want = build.ID
		}
		if got := RequestedRollback(owned, row.record); got != want {
			t.Errorf("%s, with an operator: %q, want %q", name, got, want)
		}
		if got := RequestedRollback(free, row.record); got != row.value {
			t.Errorf("%s, without an operator: %q, want %q", name, got, row.value)
		}
		if RollbackNamesNoSet(owned) != row.unnamed || RollbackNamesNoSet(free) {
			t.Errorf("%s: the annotation names no set: %t, want %t", name, !row.unnamed, row.unnamed)
		}
	}
	if got := RollbackOrder(free, nil, build.ID, build.Now); got != build.ID {
		t.Errorf("the order without an operator is %q", got)
	}
	record := answered(at(-time.Hour)) // by the clock of another user
	owned.Annotations = map[string]string{api.RollbackAnnotation: RollbackOrder(owned, record, build.ID, build.Now)}
	if RequestedRollback(owned, record) != build.ID {
		t.Errorf("after an order of a fast clock, the order %s does not count", owned.Annotations[api.RollbackAnnotation])
	}
}

// TestOrderForRollbackIsAnsweredOnce: later records keep the answer, so a copy does not undo what was resized since.
// Invariants: I7.
func TestOrderForRollbackIsAnsweredOnce(t *testing.T) {
	in := input(resizedSet(), currentClaim("data-web-0"))
	build.ControlledBy("Database", "main")(in.Set)
	in.Set.Annotations[api.RollbackAnnotation] = RollbackOrder(in.Set, nil, build.ID, build.Now)
	for _, next := range []func(Input) *Changes{func(in Input) *Changes { return Rollback(in, build.ID) }, Compare} {
		record := next(in).EmptyRecord(in, api.Succeeded)
		if RequestedRollback(in.Set, record) != "" {
			t.Errorf("the order counts again after %+v", record)
		}
		in.Set = build.Set("web", build.Status(record), build.ControlledBy("Database", "main"), build.UID(string(in.Set.UID)),
			build.Annotation(api.RollbackAnnotation, in.Set.Annotations[api.RollbackAnnotation]))
	}
}

// TestRollbackHasUniqueID: the id is unique even if the set has lost its record and counts attempts from one again.
// Invariants: I3.
func TestRollbackHasUniqueID(t *testing.T) {
	in := input(resizedSet(), currentClaim("data-web-0"))
	seen := map[string]string{Compare(in).EmptyRecord(in, api.Refused).Operation: "a resize"}
	for _, operation := range []string{build.ID, "ba9876543210"} {
		id := Rollback(in, operation).EmptyRecord(in, api.Planned).Operation
		if other := seen[id]; other != "" {
			t.Errorf("the rollback of %s has the same id as %s", operation, other)
		}
		seen[id] = "the rollback of " + operation
	}
	again := input(resizedSet(succeededRecord()), currentClaim("data-web-0"))
	if id := Rollback(again, build.ID).EmptyRecord(again, api.Planned).Operation; seen[id] != "" {
		t.Errorf("the next attempt has the same id as %s", seen[id])
	}
}

// TestRollbackAwayFromClosedClassIsAllowed: a resize moved the claims from class fixed to class fast. Then the administrator closed class
// fast with a quota of zero claims, or of fewer than exist. A rollback deletes the claims of class fast and creates claims of class fixed.
// The quota on fast refuses none of that, so the rollback must not be refused.
func TestRollbackAwayFromClosedClassIsAllowed(t *testing.T) {
	present := func(name string) objects { return claim(name, "fast", "128Mi") }
	in := input(resizedSet(), present("data-web-0"), present("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"),
		oldVolume("pv-old-1", "data-web-1", "64Mi"))
	w := Rollback(in, build.ID)
	if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != "" {
		t.Fatalf("without a quota: %s", got)
	}
	in = quota(in, corev1.ResourceName("fast.storageclass.storage.k8s.io/persistentvolumeclaims"), "0", "2")
	w = Rollback(in, build.ID)
	if found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID)); reasons(found) == string(api.QuotaExceeded) {
		t.Errorf("the rollback needs no claim of class fast: %v", found)
	}
}

// TestRollbackUnderLoweredClaimCountIsRefused: two claims are used, and since the resize the quota was lowered to one. Kubernetes lets the
// present claims live. A rollback deletes a claim and creates another one, which the quota refuses: the members stay stopped.
func TestRollbackUnderLoweredClaimCountIsRefused(t *testing.T) {
	for _, name := range []corev1.ResourceName{"persistentvolumeclaims", "count/persistentvolumeclaims",
		"fixed.storageclass.storage.k8s.io/persistentvolumeclaims"} {
		for _, strategy := range []api.Strategy{api.StrategyRolling, api.StrategyWhole} {
			in := quota(input(resizedSet(build.Annotation(api.StrategyAnnotation, string(strategy))), currentClaim("data-web-0"),
				currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"), oldVolume("pv-old-1", "data-web-1", "64Mi")),
				name, "1", "2")
			w := Rollback(in, build.ID)
			if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != string(api.QuotaExceeded) {
				t.Errorf("%s, %s: the rollback begins (problems %q), and no claim can be created after its first deletion", strategy, name, got)
			}
		}
	}
}

// TestRollingRollbackFitsTheQuotaAtEachMember: 256Mi are used, and the quota was lowered to 160Mi since the resize from 64Mi to 128Mi.
// After a rollback of both members, 128Mi would be used. But a rolling rollback replaces the claim of one member first: 128Mi + 64Mi do
// not fit, so that member stays held.
func TestRollingRollbackFitsTheQuotaAtEachMember(t *testing.T) {
	for strategy, want := range map[api.Strategy]string{api.StrategyRolling: string(api.QuotaExceeded), api.StrategyWhole: ""} {
		in := quota(input(resizedSet(build.Annotation(api.StrategyAnnotation, string(strategy))), currentClaim("data-web-0"),
			currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"), oldVolume("pv-old-1", "data-web-1", "64Mi")),
			"requests.storage", "160Mi", "256Mi")
		w := Rollback(in, build.ID)
		if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != want {
			t.Errorf("%s: problems %q, want %q", strategy, got, want)
		}
	}
}

// TestRollbackWithoutRoomInQuotaIsRefused: a shrink left old volumes of twice the size. Since then, the quota has been filled or lowered. A
// rollback deletes each claim before it creates the larger one, which the quota then refuses: all members stay stopped, and abort does not
// help.
func TestRollbackWithoutRoomInQuotaIsRefused(t *testing.T) {
	shrunk := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "256Mi"),
			oldVolume("pv-old-1", "data-web-1", "256Mi"))
	}
	ofClass := edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })
	moved := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "128Mi", ofClass))
	}
	for situation, in := range map[string]Input{
		"256Mi are used and allowed, the old claims need 512Mi": quota(shrunk(), "requests.storage", "256Mi", "256Mi"),
		"the former class is forbidden since the move": quota(moved(), "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
			"0", "0"),
		"the former class has no storage any more": quota(moved(), "fast.storageclass.storage.k8s.io/requests.storage", "0", "0"),
	} {
		w := Rollback(in, build.ID)
		found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
		if got := reasons(found); got != string(api.QuotaExceeded) {
			t.Errorf("%s: the rollback begins (problems %q) and stops the set without a way back", situation, got)
		}
	}
}

// TestRollbackFitsTheQuotaOfItsResize: a rollback turns the old volumes into claims, and its API requests fit the quota. The old volumes
// that come back must not count twice, as claims and as retained volumes.
func TestRollbackFitsTheQuotaOfItsResize(t *testing.T) {
	shrunk := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "256Mi"),
			oldVolume("pv-old-1", "data-web-1", "256Mi"))
	}
	ofClass := edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })
	for situation, in := range map[string]Input{
		// the resize had used 512Mi and added 256Mi. Now 256Mi are used; after the rollback 512Mi are, beside 256Mi of old volumes.
		"two shrunk claims, under the quota that the resize needed": quota(shrunk(), "requests.storage", "768Mi", "256Mi"),
		// "Raise the quota for the time of the resize", says QuotaExceeded. The user did, and lowered it again. The rollback adds nothing.
		"a move to another class, and the quota is as before": quota(input(resizedSet(), currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "128Mi", ofClass)), "requests.storage", "128Mi", "128Mi"),
	} {
		w := Rollback(in, build.ID)
		for _, p := range slices.Concat(w.Problems, PreflightRollback(in, w, build.ID)) {
			t.Errorf("%s: the rollback is refused: %s: %s", situation, p.Reason, p.Message)
		}
	}
}

// TestRollbackToUnreachableVolumeIsRefused: the resize moved the set to other nodes. No pod of the set can mount its old volume any more,
// so after a rollback every member stays Pending.
func TestRollbackToUnreachableVolumeIsRefused(t *testing.T) {
	selects := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} })
	in := input(resizedSet(selects), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi", inZone("a")))
	w := Rollback(in, build.ID)
	found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
	if got := reasons(found); got != string(api.TopologyConflict) {
		t.Errorf("the rollback begins (problems %q) and leaves the set without a running pod", got)
	}
}

// TestRollbackBesideVolumeInAnotherZoneIsRefused: data of member 0 would come back in zone a. Its claim logs, which the operation did not
// move, is on a volume in zone b.
func TestRollbackBesideVolumeInAnotherZoneIsRefused(t *testing.T) {
	logs := claim("logs-web-0", "fixed", "64Mi")
	for _, o := range logs {
		if v, ok := o.(*corev1.PersistentVolume); ok {
			inZone("b")(metav1.Object(v))
		}
	}
	in := input(resizedSet(build.Template("logs", "64Mi", "fixed")), currentClaim("data-web-0"), logs,
		oldVolume("pv-old-0", "data-web-0", "64Mi", inZone("a")))
	w := Rollback(in, build.ID)
	found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
	if got := reasons(found); got != string(api.TopologyConflict) {
		t.Errorf("the rollback begins (problems %q) and leaves member 0 without a node", got)
	}
}

// TestCopyOfGrownBlockVolumeIsAShrink: the raw block volume has already 1Ti (ControllerExpandVolume has succeeded, NodeExpandVolume is
// pending), so its status says 64Mi. A device of 1Ti may have data anywhere. The user requests 128Mi of another class.
func TestCopyOfGrownBlockVolumeIsAShrink(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now)}}
	})
	in := input(setAsking("data=128Mi@fast", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, _, err := NeededChanges(in)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	problems := Preflight(in, w)
	for _, p := range problems {
		if p.Reason == api.ShrinkRefused {
			return
		}
	}
	t.Errorf("a block volume of 1Ti is copied to 128Mi, and no problem says so: %v", problems)
}

// TestRequestedCopyWithAttributesIsACopy: the storage could not grow the volume to 1Ti, and could not modify it. The user requests the
// old size and the other VolumeAttributesClass by a copy.
func TestRequestedCopyWithAttributesIsACopy(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := input(setAsking("data=64Mi%gold", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, reason, err := NeededChanges(in)
	if err != nil || w == nil || len(w.Claims) != 1 {
		t.Fatal(w, reason, err)
	}
	if w.Claims[0].Method != api.MethodCopy {
		t.Errorf("resize-method=copy changes the attributes in place: %s", w.Claims[0].Method)
	}
}

// TestCopyOfBlockVolumeThatNeverGrewIsNoShrink: the storage could not expand a raw block volume of 64Mi to 1Ti. The user follows the
// message: resize-method=copy, and asks for less, 128Mi. The new volume is larger than the present one.
func TestCopyOfBlockVolumeThatNeverGrewIsNoShrink(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := input(setAsking("data=128Mi", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, _, err := NeededChanges(in)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	for _, p := range Preflight(in, w) {
		if p.Reason == api.ShrinkRefused {
			t.Errorf("%s: %s", p.Reason, p.Message)
		}
	}
}
