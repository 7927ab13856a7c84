package restore

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// refused is the input of an event whose dry run of the creation was refused.
func refused(in Input, why string) Input {
	in.Refused = why
	return in
}

// failing is the input of an event whose write the API server failed to carry out.
func failing(in Input, why string) Input {
	in.Failing = why
	return in
}

// old is StatefulSet web at zero, whose template asks for 64Mi still.
func oldSet(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{zero, build.Template("data", "64Mi", "fixed"), build.Status(status)}, options...)...)}
}

// heldOrder is the journal with the order to create the set, held at zero.
func heldOrder(from objects, status *api.Resize) objects {
	next := status.Clone()
	next.Set.UID, next.Generation = "", never
	set := from[0].(*appsv1.StatefulSet)
	return objects{ordered(journalOf(web0)[0].(*appsv1.ControllerRevision), set, resources.MakeHeldSet(build.Raw(set), status.Templates, next))}
}

const again = "then ask again with the annotation drydock.dev/retry"

func TestRefusedCreationRollsBackBeforeTheSetIsDeleted(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	at := oldSet(status)
	runsStill := live(api.Switching)
	setLives := runs(runsStill)
	check(t, map[string]row{
		"no claim was touched: the set is given back with the words of the API server": {
			in: refused(world(at, heldOrder(at, status), source(web0), target(web0)), `statefulsets.apps "web" is forbidden: no`),
			want: `do RecreateRefused: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}; event RecreateRefused ` +
				`"the API server would not create StatefulSet web again: statefulsets.apps \"web\" is forbidden: no. Mend that, ` + again + `"`,
			next: "RollingBack RecreateRefused at Switching, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"the set runs: it runs on": {
			in: refused(world(setLives, own(), liveJournal(setLives, runsStill)), "no"),
			want: `do RecreateRefused: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}; event RecreateRefused ` +
				`"the API server would not create StatefulSet web again: no. Mend that. Its pods run and its claims have grown; mend the cause, ` +
				`then ask again with the annotation drydock.dev/retry" -> operation.failed`,
			next: "Failed RecreateRefused at Switching" + wasLive + "; data-web-0 Expanded; data-web-1 Expanded",
		},
	})
}

// TestRefusedOldTemplateKeepsTheSet: a claim is frozen already, so the set cannot be given back. It is not deleted either.
func TestRefusedOldTemplateKeepsTheSet(t *testing.T) {
	touched := set(with(switchingOf(web0), recreating), build.Generation(7))
	first := Decide(world(touched, journalOf(web0), doomed(web0), copied(web0)))
	journal := objects{storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), first)}
	late := set(with(switchingOf(web0), recreating, build.Due(-time.Second)), build.Generation(7))
	check(t, map[string]row{
		"before the deadline it is tried again": {
			in:   refused(world(touched, journal, doomed(web0), copied(web0)), "no"),
			want: "do SwitchRunning: try statefulsets web; delete statefulsets web (orphan)",
		},
		"after it the set stays at zero": {
			in: refused(world(late, journal, doomed(web0), copied(web0)), "no"),
			want: `do DeadlineExceeded: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}; event DeadlineExceeded ` +
				`"the switch was given up after 12m0s: the API server refuses a step: no. No data is lost, every volume is kept; ` +
				`the set stays at zero. Mend the cause, then go on with the annotation drydock.dev/retry" -> operation.failed`,
			next: "Failed DeadlineExceeded at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0",
		},
	})
}

func TestSwitchWithUntouchedClaimsIsRolledBackAtTheDeadline(t *testing.T) {
	late := with(switchingOf(web0), build.Due(-time.Second))
	mover := objects{build.Mover(build.Job(web0, 1), build.InPhase(corev1.PodSucceeded))}
	const back = "RollingBack DeadlineExceeded at Switching, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0"
	const tells = `patch statefulsets web {+status}; event DeadlineExceeded "the switch was given up after 12m0s: `
	check(t, map[string]row{
		"a mover's pod does not go": {
			in:   waited(world(set(late), journalOf(web0), source(web0), target(web0), mover)),
			want: "do DeadlineExceeded: " + tells + "mover pod " + copy0 + "-x is still there. Mend the cause, " + again + `"`,
			next: back,
		},
		"an admission webhook does not answer": {
			in:   failing(world(set(late), journalOf(web0), source(web0), target(web0)), "failed calling webhook"),
			want: "do DeadlineExceeded: " + tells + "the API server fails to carry out a step: failed calling webhook. Mend the cause, " + again + `"`,
			next: back,
		},
		"before the deadline the event fails, and comes again": {
			in:   failing(world(set(switchingOf(web0)), journalOf(web0), source(web0), target(web0)), "failed calling webhook"),
			want: "noop Rejected",
		},
		"a finalizer on the set would hold it: it is not deleted": {
			in: world(oldSet(with(late.Clone(), recreating), build.Finalizers("example.com/keep")), journalOf(web0), source(web0), target(web0)),
			want: "do DeadlineExceeded: " + tells + "finalizer example.com/keep would hold StatefulSet web when it is deleted to be created again. Remove it. Mend the cause, " +
				again + `"`,
			next: back,
		},
	})
}

func TestCleanupFinalizerGoesBeforeTheSetAndComesBackWithIt(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	asks := build.Annotation(api.CleanupOnDeleteAnnotation, "true")
	at := oldSet(status, asks, build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, api.FinalizerForCleanup))
	p := Decide(world(at, journalOf(web0), source(web0), target(web0)))
	if got := p.String(); got != "do SwitchRunning: patch statefulsets web {-finalizer cleanup, -label finalizer}" {
		t.Fatal(got)
	}
	p = Decide(world(oldSet(status, asks), journalOf(web0), source(web0), target(web0)))
	set, err := api.LoadManifest(storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), p))
	if err != nil || len(set.Finalizers) != 1 || set.Finalizers[0] != api.CleanupFinalizer || set.Labels[api.FinalizerLabel] != api.FinalizerForCleanup {
		t.Errorf("it is created with finalizers %v and labels %v (%v)", set.Finalizers, set.Labels, err)
	}
}

func TestDeletedSetThatAFinalizerHoldsIsTold(t *testing.T) {
	late := with(switchingOf(web0), recreating, build.Due(-time.Second))
	held := build.Finalizers("orphan", "example.com/keep")
	at := oldSet(late, build.Deleting(), held)
	const why = "StatefulSet web is being deleted and finalizers orphan, example.com/keep keep it. Remove them, or mend the controllers that they belong to; "
	told := late.Clone()
	told.Reason, told.Message = api.SetHeld, why+"Drydock creates the set again when it is gone"
	const verified = ", attempt 1, round 1, generation 5, replicas 3, due in -1s; data-web-0 Verified on pv-new-data-web-0"
	check(t, map[string]row{
		"before the deadline it is waited for": {
			in:   waited(world(oldSet(with(switchingOf(web0), recreating), build.Deleting(), held), source(web0), target(web0))),
			want: "wait SwitchRunning (StatefulSet web is being deleted)",
		},
		"after it people are told, and the order stands": {
			in:   waited(world(at, heldOrder(at, late), source(web0), target(web0))),
			want: `do SetHeld: patch statefulsets web {+status}; event SetHeld "` + told.Message + `"`,
			next: "Switching SetHeld" + verified,
		},
		"another process deletes it: the operation is undone": {
			in:   waited(world(at, journalOf(web0), source(web0), target(web0))),
			want: `do SetHeld: patch statefulsets web {+status}; event SetHeld "` + why + `Drydock undoes the operation when the set is gone"`,
			next: "Switching SetHeld" + verified,
		},
		"they are told once": {
			in:   waited(world(oldSet(told, build.Deleting(), held), heldOrder(at, late), source(web0), target(web0))),
			want: "wait SetHeld (" + told.Message + ")",
		},
	})
}

func TestUndoingOfALostSetHasADeadline(t *testing.T) {
	since := func(ago time.Duration) objects {
		at := build.Now.Add(-ago).Format(time.RFC3339)
		return objects{build.With(journalOf(web0)[0], build.Annotation(api.UndoingSinceAnnotation, at))}
	}
	stuckClaim := doomed(web0, "example.com/backup")
	const held = "claim data-web-0 is held by another finalizer of [drydock.dev/switch example.com/backup]"
	check(t, map[string]row{
		"it has just begun to wait": {
			in: world(journalOf(web0), stuckClaim, copied(web0)), want: "wait SetReplaced (" + held + ")"},
		"it waits for long: that is written down": {
			in: waited(world(journalOf(web0), stuckClaim, copied(web0))), want: "do SetReplaced: patch controllerrevisions drydock-0123456789ab {+undoing-since}"},
		"the time is not over": {
			in: waited(world(since(time.Minute), stuckClaim, copied(web0))), want: "wait SetReplaced (" + held + ")"},
		"it is over: people are told, the journal stays": {
			in: waited(world(since(time.Hour), stuckClaim, copied(web0))),
			want: `do UndoStuck: event UndoStuck "the StatefulSet was deleted or replaced during an operation, which cannot be undone: ` + held +
				`. Mend the cause; it is tried again at each tick, and an owner that was paused stays paused until then"`},
	})
}

func TestCreationThatFailsIsToldAfterTheDeadline(t *testing.T) {
	late, status := with(switchingOf(web0), recreating, build.Due(-time.Second)), with(switchingOf(web0), recreating)
	check(t, map[string]row{
		"before the deadline the event fails, and comes again": {
			in: failing(world(heldOrder(oldSet(status), status), source(web0), target(web0)), "failed calling webhook"), want: "noop Rejected"},
		"after it people are told": {
			in: failing(world(heldOrder(oldSet(late), late), source(web0), target(web0)), "failed calling webhook"),
			want: `do Rejected: event Rejected "the StatefulSet cannot be created again: failed calling webhook; its manifest is in the annotation drydock.dev/recreate ` +
				`of ControllerRevision drydock-0123456789ab, it is tried again at each tick"`},
	})
}

// blocking is an owner that is not to go before the set.
func blocking(o metav1.Object) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "main", UID: "uid-main", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}})
}

func managed(o metav1.Object) {
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:template":{}}}`)}},
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1", Subresource: "status",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:replicas":{}}}`)}},
	})
}

// asCreated is the set as the API server has just created it for the order in the journal.
func asCreated(t *testing.T, journal objects) *appsv1.StatefulSet {
	t.Helper()
	p := Decide(world(journal, source(web0), target(web0)))
	if p.String() != "do SwitchRunning: create statefulsets web" {
		t.Fatal(p)
	}
	made := build.As[appsv1.StatefulSet](p.Actions[0].Object)
	made.UID, made.ResourceVersion, made.Generation = "uid-2", "rv-2", 1
	made.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}
	return made
}

func TestCreatedSetGetsItsManagersAndBlockingOwnersBack(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	from := oldSet(status, blocking, managed)
	journal := heldOrder(from, status)
	made := asCreated(t, journal)
	if len(made.OwnerReferences) != 1 || *made.OwnerReferences[0].BlockOwnerDeletion {
		t.Fatalf("it is created with owners %v, which the API server may refuse", made.OwnerReferences)
	}
	in := world(objects{made}, journal, source(web0), target(web0))
	const withdrawn = "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web "
	if p := Decide(in); p.String() != withdrawn+"{blockOwnerDeletion of Database main}" || p.Actions[1].Ops[1].Path != "/metadata/ownerReferences/0/blockOwnerDeletion" {
		t.Error(p)
	}
	const identity = withdrawn + "{+status, managedFields}"
	if p := Decide(rejected(in, "you can't set finalizers on")); p.String() != identity {
		t.Errorf("refused: %s", p)
	}
	blocks := made.DeepCopy()
	blocks.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	p := Decide(world(objects{blocks}, journal, source(web0), target(web0)))
	if p.String() != identity {
		t.Fatal(p)
	}
	ops := p.Actions[1].Ops
	text, err := json.Marshal(ops[len(ops)-1].Value)
	if err != nil || ops[len(ops)-1].Path != "/metadata/managedFields" || !strings.Contains(string(text), `"flux"`) || strings.Contains(string(text), `"drydock"`) ||
		strings.Contains(string(text), `"status"`) {
		t.Errorf("%s: %s (%v)", ops[len(ops)-1].Path, text, err)
	}
}

// TestCrashAfterTheCreationIsResumed: the order is withdrawn, the set has no identity yet. The journal still tells its managers.
func TestCrashAfterTheCreationIsResumed(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	journal := heldOrder(oldSet(status, managed), status)
	made := asCreated(t, journal)
	delete(journal[0].(*appsv1.ControllerRevision).Annotations, api.RecreateAnnotation)
	p := Decide(world(objects{made}, journal, source(web0), target(web0)))
	if p.String() != "do SwitchRunning: patch statefulsets web {+status, managedFields}" {
		t.Error(p)
	}
}

func TestManagersOfACreatedSet(t *testing.T) {
	entry := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", Subresource: subresource}
	}
	before := []metav1.ManagedFieldsEntry{entry("flux", ""), entry(api.FieldManager, ""), entry("kube-controller-manager", "status")}
	now := []metav1.ManagedFieldsEntry{entry(api.FieldManager, ""), entry("flux", ""), entry("kubectl-annotate", ""), entry("kube-controller-manager", "status")}
	var got []string
	for _, e := range managers(before, now) {
		got = append(got, e.Manager+"/"+e.Subresource)
	}
	if want := "flux/ drydock/ kubectl-annotate/ kube-controller-manager/status"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

// TestUnknownFieldsOfASetSurvive: this build knows no field of a newer Kubernetes.
func TestUnknownFieldsOfASetSurvive(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	in := world(oldSet(status), journalOf(web0), source(web0), target(web0))
	future := [][]string{{"spec", "futureSetField"}, {"spec", "template", "spec", "futurePodField"}, {"metadata", "futureField"}}
	for _, path := range future {
		if err := unstructured.SetNestedField(in.Manifest.Object, "kept", path...); err != nil {
			t.Fatal(err)
		}
	}
	order := storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), Decide(in))
	p := Decide(world(objects{order}, source(web0), target(web0)))
	made := p.Actions[0].Object.(*unstructured.Unstructured)
	for _, path := range future {
		if value, _, _ := unstructured.NestedString(made.Object, path...); value != "kept" {
			t.Errorf("%v is %q", path, value)
		}
	}
}

// TestUnknownFieldsOfAClaimSurvive from the frozen claim to the one that is created.
func TestUnknownFieldsOfAClaimSurvive(t *testing.T) {
	frozen := doomed(web0)
	build.Finalizers(api.SwitchFinalizer)(frozen[0])
	frozen[0].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Backup", Name: "daily", UID: "uid-daily", BlockOwnerDeletion: ptr.To(true)}})
	in := world(set(switchingOf(web0)), journalOf(web0), frozen, copied(web0))
	if err := unstructured.SetNestedField(in.ClaimManifests[web0].Object, "kept", "spec", "futureField"); err != nil {
		t.Fatal(err)
	}
	p := Decide(in)
	if p.String() != "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+claim, reserved for data-web-0}" {
		t.Fatal(p)
	}
	volume := copied(web0)[0].(*corev1.PersistentVolume)
	for _, op := range p.Actions[0].Ops {
		if text, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "~1claim") {
			build.Annotation(api.ClaimManifestAnnotation, text)(volume)
		}
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: build.Namespace, Name: web0}
	volume.Status.Phase = corev1.VolumeAvailable
	p = Decide(world(set(switchingOf(web0)), journalOf(web0), oldVolume(web0), objects{volume}))
	if p.String() != "do SwitchRunning: create persistentvolumeclaims data-web-0" {
		t.Fatal(p)
	}
	made := p.Actions[0].Object.(*unstructured.Unstructured)
	if value, _, _ := unstructured.NestedString(made.Object, "spec", "futureField"); value != "kept" {
		t.Errorf("it is %v", made.Object)
	}
	if owner := made.GetOwnerReferences(); len(owner) != 1 || *owner[0].BlockOwnerDeletion {
		t.Errorf("owners %v, which the API server may refuse", owner)
	}
}

func TestFrozenClaimThatWasNotReadIsWaitedFor(t *testing.T) {
	in := world(set(switchingOf(web0)), journalOf(web0), doomed(web0), copied(web0))
	in.ClaimManifests[web0].SetResourceVersion("another")
	if p := Decide(in); p.String() != "wait SwitchRunning (claim data-web-0 has changed and is read again)" {
		t.Error(p)
	}
}

func TestOwnersOfASuccessorComeBack(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Backup", Name: "daily", UID: "uid-daily", BlockOwnerDeletion: ptr.To(true)}
	open := owner
	open.BlockOwnerDeletion = ptr.To(false)
	for name, row := range map[string]struct {
		has   []metav1.OwnerReference
		block bool
		want  string
	}{
		"created by the StatefulSet controller": {nil, true, "owners owner Backup daily"},
		"created by restore":                    {[]metav1.OwnerReference{open}, true, "blockOwnerDeletion of Backup daily"},
		"the API server has refused that":       {[]metav1.OwnerReference{open}, false, ""},
		"it is complete":                        {[]metav1.OwnerReference{owner}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := build.Claim(web0, "64Mi", func(o metav1.Object) { o.SetOwnerReferences(row.has) })
			patch := plan.PatchOf(plan.Claims, claim)
			mergeOwners(patch, claim, []metav1.OwnerReference{owner}, row.block)
			words := ""
			if actions := patch.Actions(); len(actions) > 0 {
				words = strings.Join(actions[0].Words, " ")
			}
			if words != row.want {
				t.Errorf("got %q, want %q", words, row.want)
			}
		})
	}
}

// TestClaimThatAsksForAnotherAttributesClassIsInTheWay: the volume controller would not bind it to the reserved volume.
func TestClaimThatAsksForAnotherAttributesClassIsInTheWay(t *testing.T) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	claim := build.Claim(web0, "64Mi")
	volume.Spec.Capacity, volume.Spec.StorageClassName, volume.Spec.AccessModes = corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()}, build.Class, claim.Spec.AccessModes
	if m := unbound(claim, volume); m.waiting == "" {
		t.Errorf("it fits: %+v", m)
	}
	claim.Spec.VolumeAttributesClassName = ptr.To("gold")
	if m := unbound(claim, volume); len(m.actions) != 1 || m.actions[0].Verb != plan.VerbDelete {
		t.Errorf("it asks for gold: %+v", m)
	}
	volume.Spec.VolumeAttributesClassName = ptr.To("gold")
	if m := unbound(claim, volume); m.waiting == "" {
		t.Errorf("both are gold: %+v", m)
	}
}

// TestClaimGoesBackWithTheAttributesOfItsVolume: a change of the VolumeAttributesClass that never came true is not asked for again.
func TestClaimGoesBackWithTheAttributesOfItsVolume(t *testing.T) {
	frozen := doomed(web0)
	claim, old := frozen[0].(*corev1.PersistentVolumeClaim), frozen[1].(*corev1.PersistentVolume)
	claim.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName = ptr.To("gold"), ptr.To("silver")
	stale := set(switchingOf(web0), build.Generation(7), build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = build.Set("web", build.Template("data", "64Mi", "fixed")).Spec.VolumeClaimTemplates
	}))
	p := Decide(world(stale, journalOf(web0), frozen, copied(web0)))
	if p.String() != "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}" {
		t.Fatal(p)
	}
	for _, op := range p.Actions[0].Ops {
		if text, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "~1claim") && !strings.Contains(text, `"volumeAttributesClassName":"silver"`) {
			t.Errorf("it is created as %s", text)
		}
	}
}
