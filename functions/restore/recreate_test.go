package restore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// orderInJournal is the journal with the order to create the set, made from the present set.
func orderInJournal(from objects, record *api.Resize) objects {
	next := record.Clone()
	s := from[0].(*appsv1.StatefulSet)
	next.Set.UID, next.Former = "", s.UID
	return objects{withOrder(journalOf(web0)[0].(*appsv1.ControllerRevision), s, resources.MakeSet(build.Untyped(s), record.Templates, next))}
}

// TestRecreatedSetKeepsCleanupFinalizer: cleanup-pod's finalizer is removed before the deletion, which it would block, and the new set
// has it again.
func TestRecreatedSetKeepsCleanupFinalizer(t *testing.T) {
	record := movingOne(api.MemberWaiting, build.ReplacesSet)
	asks := build.Annotation(api.CleanupOnDeleteAnnotation, "true")
	all := append(append(source(web0), target(web0)...), pod(0)...)
	at := setWithOldTemplate(record, asks, build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, api.FinalizerForCleanup))
	check(t,
		testCase{"the finalizer is removed first", situation(at, journalOf(web0), all)},
		testCase{"then the order is written down", situation(setWithOldTemplate(record, asks), journalOf(web0), all)},
	)
	p := Decide(situation(setWithOldTemplate(record, asks), journalOf(web0), all))
	set, err := api.LoadManifest(storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), p))
	if err != nil || len(set.Finalizers) != 1 || set.Finalizers[0] != api.CleanupFinalizer ||
		set.Labels[api.FinalizerLabel] != api.FinalizerForCleanup {
		t.Errorf("it is created with finalizers %v and labels %v (%v)", set.Finalizers, set.Labels, err)
	}
}

func blocking(o metav1.Object) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "main", UID: "uid-main",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}})
}

func managed(o metav1.Object) {
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:template":{}}}`)}},
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1",
			Subresource: "status",
			FieldsV1:    &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:replicas":{}}}`)}},
	})
}

// asCreated is the set as the API server creates it from the order in the journal.
func asCreated(t *testing.T, order objects) *appsv1.StatefulSet {
	t.Helper()
	p := Decide(situation(order, source(web0), target(web0)))
	if len(p.Actions) != 1 || p.Actions[0].Verb != plan.VerbCreate || p.Actions[0].Resource != plan.StatefulSets {
		t.Fatal(p)
	}
	made := build.Typed[appsv1.StatefulSet](p.Actions[0].Object)
	made.UID, made.ResourceVersion, made.Generation = "uid-2", "rv-2", 1
	made.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}
	return made
}

// TestRecreatedSetRestoresManagersAndBlockingOwners checks that the first write after the creation restores both.
func TestRecreatedSetRestoresManagersAndBlockingOwners(t *testing.T) {
	status := movingOne(api.MemberWaiting, build.ReplacesSet)
	from := setWithOldTemplate(status, blocking, managed)
	order := orderInJournal(from, status)
	made := asCreated(t, order)
	if len(made.OwnerReferences) != 1 || *made.OwnerReferences[0].BlockOwnerDeletion {
		t.Fatalf("it is created with owners %v, which the API server may refuse", made.OwnerReferences)
	}
	in := situation(objects{made}, order, source(web0), target(web0))
	file := golden.Open(t)
	p := Decide(in)
	file.Entry(t, "the set was created: its owner blocks again", p.String())
	if p.Actions[1].Ops[1].Path != "/metadata/ownerReferences/0/blockOwnerDeletion" {
		t.Error(p)
	}
	refused := Decide(with(in, func(in *Input) { in.Rejected = "you can't set finalizers on" }))
	file.Entry(t, "the API server refuses a blocking owner", refused.String())
	blocks := made.DeepCopy()
	blocks.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	p = Decide(situation(objects{blocks}, order, source(web0), target(web0)))
	file.Entry(t, "the owner blocks: the managers come back", p.String())
	ops := p.Actions[1].Ops
	text, err := json.Marshal(ops[len(ops)-1].Value)
	if err != nil || ops[len(ops)-1].Path != "/metadata/managedFields" || !strings.Contains(string(text),
		`"flux"`) || strings.Contains(string(text), `"drydock"`) ||
		strings.Contains(string(text), `"status"`) {
		t.Errorf("%s: %s (%v)", ops[len(ops)-1].Path, text, err)
	}
}

// TestCrashAfterCreationIsResumed: the order was withdrawn, but the record has no UID yet. The journal still has the managers of the
// fields.
func TestCrashAfterCreationIsResumed(t *testing.T) {
	status := movingOne(api.MemberWaiting, build.ReplacesSet)
	order := orderInJournal(setWithOldTemplate(status, managed), status)
	made := asCreated(t, order)
	delete(order[0].(*appsv1.ControllerRevision).Annotations, api.RecreateAnnotation)
	golden.Equal(t, Decide(situation(objects{made}, order, source(web0), target(web0))).String()+"\n")
}

// TestMergedManagers checks which managers the new set has.
func TestMergedManagers(t *testing.T) {
	entry := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1",
			Subresource: subresource}
	}
	before := []metav1.ManagedFieldsEntry{entry("flux", ""), entry(api.FieldManager, ""), entry("kube-controller-manager", "status")}
	now := []metav1.ManagedFieldsEntry{entry(api.FieldManager, ""), entry("flux", ""), entry("kubectl-annotate", ""),
		entry("kube-controller-manager", "status")}
	var got []string
	for _, e := range mergedManagers(before, now) {
		got = append(got, e.Manager+"/"+e.Subresource)
	}
	if want := "flux/ drydock/ kubectl-annotate/ kube-controller-manager/status"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

// TestRecreatedSetKeepsUnknownFields: this build does not know the fields of a newer Kubernetes.
func TestRecreatedSetKeepsUnknownFields(t *testing.T) {
	status := movingOne(api.MemberWaiting, build.ReplacesSet)
	in := situation(setWithOldTemplate(status), journalOf(web0), pod(0), source(web0), target(web0))
	future := [][]string{{"spec", "futureSetField"}, {"spec", "template", "spec", "futurePodField"}, {"metadata", "futureField"}}
	sent := in.Manifest()
	for _, path := range future {
		if err := unstructured.SetNestedField(sent.Object, "kept", path...); err != nil {
			t.Fatal(err)
		}
	}
	in.SetJSON = build.JSON(sent)
	order := storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), Decide(in))
	p := Decide(situation(objects{order}, source(web0), target(web0)))
	made := p.Actions[0].Object.(*unstructured.Unstructured)
	for _, path := range future {
		if value, _, _ := unstructured.NestedString(made.Object, path...); value != "kept" {
			t.Errorf("%v is %q", path, value)
		}
	}
}

// TestSuccessorClaimKeepsUnknownFields: unknown fields pass from the frozen claim to its successor.
func TestSuccessorClaimKeepsUnknownFields(t *testing.T) {
	frozen := frozenClaim(web0)
	build.Finalizers(api.FreezeFinalizer)(frozen[0])
	frozen[0].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Backup", Name: "daily", UID: "uid-daily",
		BlockOwnerDeletion: ptr.To(true)}})
	in := situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), heldPodOf(0), frozen, copyVolume(web0))
	if err := unstructured.SetNestedField(in.ClaimManifests[web0].Object, "kept", "spec", "futureField"); err != nil {
		t.Fatal(err)
	}
	file := golden.Open(t)
	p := Decide(in)
	file.Entry(t, "the claim is frozen: its manifest is stored", p.String())
	volume := copyVolume(web0)[0].(*corev1.PersistentVolume)
	for _, op := range writesOf(p)[0].Ops {
		if text, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "~1claim") {
			build.Annotation(api.ClaimManifestAnnotation, text)(volume)
		}
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: build.Namespace, Name: web0}
	volume.Status.Phase = corev1.VolumeAvailable
	p = Decide(situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), heldPodOf(0), oldVolume(web0), objects{volume}))
	file.Entry(t, "the claim is gone: its successor is created", p.String())
	made := p.Actions[0].Object.(*unstructured.Unstructured)
	if value, _, _ := unstructured.NestedString(made.Object, "spec", "futureField"); value != "kept" {
		t.Errorf("it is %v", made.Object)
	}
	if owner := made.GetOwnerReferences(); len(owner) != 1 || *owner[0].BlockOwnerDeletion {
		t.Errorf("owners %v, which the API server may refuse", owner)
	}
}

// TestChangedClaimIsReadAgain: a manifest of another version must not become the successor.
func TestChangedClaimIsReadAgain(t *testing.T) {
	in := situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), heldPodOf(0), frozenClaim(web0), copyVolume(web0))
	in.ClaimManifests[web0].SetResourceVersion("another")
	golden.Equal(t, Decide(in).String()+"\n")
}

// TestSuccessorClaimRestoresOwners checks the owners of a claim and their blockOwnerDeletion.
func TestSuccessorClaimRestoresOwners(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Backup", Name: "daily", UID: "uid-daily",
		BlockOwnerDeletion: ptr.To(true)}
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

// TestReturnedClaimKeepsAttributesClassOfVolume: a change of the VolumeAttributesClass that never took effect is not requested again.
func TestReturnedClaimKeepsAttributesClassOfVolume(t *testing.T) {
	frozen := frozenClaim(web0)
	claim, old := frozen[0].(*corev1.PersistentVolumeClaim), frozen[1].(*corev1.PersistentVolume)
	claim.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName = ptr.To("gold"), ptr.To("silver")
	p := Decide(situation(setWithOldTemplate(movingOne(api.MemberSwapping)), journalOf(web0), pod(0, build.UID("uid-other")), frozen,
		copyVolume(web0)))
	golden.Equal(t, p.String()+"\n")
	ops := writesOf(p)[0].Ops
	i := slices.IndexFunc(ops, func(op plan.Op) bool { return strings.HasSuffix(op.Path, "~1claim") })
	if i < 0 || !strings.Contains(fmt.Sprint(ops[i].Value), `"volumeAttributesClassName":"silver"`) {
		t.Errorf("the claim is not recorded with the class of its volume: %+v", ops)
	}
}

// TestAbortOfTerminatingSetIsKept: Drydock has deleted the set to create it again, and the garbage collector has not released the pods yet.
// A user aborts, and relabels the set. The API server accepts both, as it accepts a scaling, which is kept.
func TestAbortOfTerminatingSetIsKept(t *testing.T) {
	status := movingOne(api.MemberWaiting, build.ReplacesSet)
	order := orderInJournal(setWithOldTemplate(status), status)
	deleted := setWithOldTemplate(status, build.Deleting(), build.Finalizers("orphan"), build.Annotation(api.AbortAnnotation, "true"),
		build.Label("team", "new"), build.Replicas(5))
	in := situation(deleted, order, source(web0), target(web0))
	p := Decide(in)
	stored := ""
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			if text, ok := op.Value.(string); ok && a.Resource == plan.ControllerRevisions && strings.Contains(text, `"replicas":5`) {
				stored = text
			}
		}
	}
	if stored == "" {
		t.Fatalf("the scaling is lost: %s", p)
	}
	if !strings.Contains(stored, api.AbortAnnotation) || !strings.Contains(stored, `"team":"new"`) {
		t.Errorf("the set is created again without the abort or the label: %s", stored)
	}
}

// TestMissingClaimIsCreatedBeforeOthersAreReleased: a resize is given up. The claim of member 0 is gone, and its copy is reserved for it.
// Member 1 keeps its volume, and its pod is released. A policy refuses that patch. If it comes first, nothing after it is carried out, by
// any event: the claim of member 0 stays missing, although nothing refuses its creation. A resize frees room in the quota with its
// temporary claims, so it has no reason to create claims last.
func TestMissingClaimIsCreatedBeforeOthersAreReleased(t *testing.T) {
	record := build.Operation(api.Reverting, build.Due(time.Hour), build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) {
		r.FailedAt, r.Reason, r.Message = api.Moving, api.Aborted, "because"
		for i := range r.Members {
			r.Members[i].StoppedAt = &metav1.Time{Time: build.Now.Add(-time.Minute)}
		}
	})
	p := Decide(situation(append(setWith(record, build.Replicas(2)), journalOf(web0, web1)...), heldPodOf(0), heldPodOf(1),
		oldVolume(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi"))), source(web1), target(web1)))
	created := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbCreate && a.Resource == plan.Claims })
	released := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == "web-1" })
	if created < 0 || released >= 0 && released < created {
		t.Errorf("claim %s is created after another member's pod is released: %s", web0, p)
	}
}

// changesFields turns the operation into a change of the set's fields only.
func changesFields(fields, before []api.Field) func(*api.Resize) {
	return func(r *api.Resize) {
		r.Templates, r.ReplaceSet, r.Fields, r.FieldsBefore = nil, true, fields, before
		r.Request = api.Words(fields)[0]
		r.Operation = api.OperationID(r.Set.UID, r.Request, r.Attempt)
	}
}

// TestFieldsOperationRecreatesSet: the set is created again around its pods, and nothing else happens.
func TestFieldsOperationRecreatesSet(t *testing.T) {
	service := func(name string) []api.Field { return []api.Field{{Name: api.FieldServiceName, Value: name}} }
	change, more := changesFields(service("db"), service("web")), api.Field{Name: api.FieldTemplate, Template: "logs",
		Ask: &api.TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi"), Modes: build.Claim(web0, "1Gi").Spec.AccessModes}}
	less := more
	less.Removed, less.Ask = true, nil
	adds, removes := changesFields([]api.Field{more}, []api.Field{less}), changesFields([]api.Field{less}, []api.Field{more})
	at := func(phase api.Phase, change func(*api.Resize), options ...build.Option) objects {
		record := build.Operation(phase, change)
		if phase == api.Reverting {
			because(record)
		}
		return setWith(record, append([]build.Option{build.Replicas(1),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "web" })}, options...)...)
	}
	journalled := func(change func(*api.Resize)) objects {
		return objects{build.Journal(build.Operation(api.Moving, change))}
	}
	serves := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "db" })
	logs := build.Template("logs", "1Gi", "fixed")
	check(t,
		testCase{"the journal is created first", situation(at(api.Moving, change), pod(0))},
		testCase{"then the order to create the set is written down", situation(at(api.Moving, change), journalled(change), pod(0))},
		testCase{"the set has the service: it is done", situation(at(api.Moving, change, serves), journalled(change), pod(0))},
		testCase{"the operation is aborted after the set got the service: the old service returns",
			situation(at(api.Reverting, change, serves), journalled(change), pod(0))},
		testCase{"the operation is aborted before that: nothing must be undone",
			situation(at(api.Reverting, change), journalled(change), pod(0))},
		testCase{"a template is added and the set was scaled up: restore waits", situation(at(api.Moving, adds), journalled(adds), pod(0))},
		testCase{"a template is added to a set without pods", situation(at(api.Moving, adds, build.Replicas(0)), journalled(adds))},
		testCase{"the operation is aborted after a template was removed: the template does not return",
			situation(at(api.Reverting, removes), journalled(removes), pod(0))},
		testCase{"the operation is aborted before a template is removed",
			situation(at(api.Reverting, removes, logs), journalled(removes), pod(0))},
	)
}
