package restore

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// orderFor is the journal's order to create the set, made from the set as it is.
func orderFor(from objects, record *api.Resize) objects {
	next := record.Clone()
	next.Set.UID = ""
	s := from[0].(*appsv1.StatefulSet)
	return objects{ordered(journal(web0)[0].(*appsv1.ControllerRevision), s, resources.MakeSet(build.Raw(s), record.Templates, next))}
}

// TestCleanupFinalizerGoesBeforeTheSetAndComesBackWithIt: cleanup-pod would hold the deleted set by it.
func TestCleanupFinalizerGoesBeforeTheSetAndComesBackWithIt(t *testing.T) {
	record := moving0(api.MemberWaiting, build.ReplacesSet)
	asks := build.Annotation(api.CleanupOnDeleteAnnotation, "true")
	all := append(append(source(web0), target(web0)...), pod(0)...)
	at := oldSet(record, asks, build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, api.FinalizerForCleanup))
	check(t,
		row{"the finalizer goes first", given(at, journal(web0), all)},
		row{"then the order is written down", given(oldSet(record, asks), journal(web0), all)},
	)
	p := Decide(given(oldSet(record, asks), journal(web0), all))
	set, err := api.LoadManifest(storedOrder(t, journal(web0)[0].(*appsv1.ControllerRevision), p))
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

// asCreated is the set as the API server has just created it for the order in the journal.
func asCreated(t *testing.T, order objects) *appsv1.StatefulSet {
	t.Helper()
	p := Decide(given(order, source(web0), target(web0)))
	if len(p.Actions) != 1 || p.Actions[0].Verb != plan.VerbCreate || p.Actions[0].Resource != plan.StatefulSets {
		t.Fatal(p)
	}
	made := build.As[appsv1.StatefulSet](p.Actions[0].Object)
	made.UID, made.ResourceVersion, made.Generation = "uid-2", "rv-2", 1
	made.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}
	return made
}

func TestCreatedSetGetsItsManagersAndBlockingOwnersBack(t *testing.T) {
	status := moving0(api.MemberWaiting, build.ReplacesSet)
	from := oldSet(status, blocking, managed)
	order := orderFor(from, status)
	made := asCreated(t, order)
	if len(made.OwnerReferences) != 1 || *made.OwnerReferences[0].BlockOwnerDeletion {
		t.Fatalf("it is created with owners %v, which the API server may refuse", made.OwnerReferences)
	}
	in := given(objects{made}, order, source(web0), target(web0))
	file := golden.Open(t)
	p := Decide(in)
	file.Entry(t, "the set was created: its owner blocks again", p.String())
	if p.Actions[1].Ops[1].Path != "/metadata/ownerReferences/0/blockOwnerDeletion" {
		t.Error(p)
	}
	refused := Decide(but(in, func(in *Input) { in.Rejected = "you can't set finalizers on" }))
	file.Entry(t, "the API server refuses a blocking owner", refused.String())
	blocks := made.DeepCopy()
	blocks.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	p = Decide(given(objects{blocks}, order, source(web0), target(web0)))
	file.Entry(t, "the owner blocks: the managers come back", p.String())
	ops := p.Actions[1].Ops
	text, err := json.Marshal(ops[len(ops)-1].Value)
	if err != nil || ops[len(ops)-1].Path != "/metadata/managedFields" || !strings.Contains(string(text),
		`"flux"`) || strings.Contains(string(text), `"drydock"`) ||
		strings.Contains(string(text), `"status"`) {
		t.Errorf("%s: %s (%v)", ops[len(ops)-1].Path, text, err)
	}
}

// TestCrashAfterTheCreationIsResumed: the order is withdrawn, the set has no identity yet. The journal still tells its managers.
func TestCrashAfterTheCreationIsResumed(t *testing.T) {
	status := moving0(api.MemberWaiting, build.ReplacesSet)
	order := orderFor(oldSet(status, managed), status)
	made := asCreated(t, order)
	delete(order[0].(*appsv1.ControllerRevision).Annotations, api.RecreateAnnotation)
	golden.Equal(t, Decide(given(objects{made}, order, source(web0), target(web0))).String()+"\n")
}

func TestManagersOfACreatedSet(t *testing.T) {
	entry := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1",
			Subresource: subresource}
	}
	before := []metav1.ManagedFieldsEntry{entry("flux", ""), entry(api.FieldManager, ""), entry("kube-controller-manager", "status")}
	now := []metav1.ManagedFieldsEntry{entry(api.FieldManager, ""), entry("flux", ""), entry("kubectl-annotate", ""),
		entry("kube-controller-manager", "status")}
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
	status := moving0(api.MemberWaiting, build.ReplacesSet)
	in := given(oldSet(status), journal(web0), pod(0), source(web0), target(web0))
	future := [][]string{{"spec", "futureSetField"}, {"spec", "template", "spec", "futurePodField"}, {"metadata", "futureField"}}
	for _, path := range future {
		if err := unstructured.SetNestedField(in.Manifest.Object, "kept", path...); err != nil {
			t.Fatal(err)
		}
	}
	order := storedOrder(t, journal(web0)[0].(*appsv1.ControllerRevision), Decide(in))
	p := Decide(given(objects{order}, source(web0), target(web0)))
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
	frozen[0].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Backup", Name: "daily", UID: "uid-daily",
		BlockOwnerDeletion: ptr.To(true)}})
	in := given(set(moving0(api.MemberSwapping)), journal(web0), held(0), frozen, copied(web0))
	if err := unstructured.SetNestedField(in.ClaimManifests[web0].Object, "kept", "spec", "futureField"); err != nil {
		t.Fatal(err)
	}
	file := golden.Open(t)
	p := Decide(in)
	file.Entry(t, "the claim is frozen: its manifest is stored", p.String())
	volume := copied(web0)[0].(*corev1.PersistentVolume)
	for _, op := range writesOf(p)[0].Ops {
		if text, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "~1claim") {
			build.Annotation(api.ClaimManifestAnnotation, text)(volume)
		}
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: build.Namespace, Name: web0}
	volume.Status.Phase = corev1.VolumeAvailable
	p = Decide(given(set(moving0(api.MemberSwapping)), journal(web0), held(0), oldVolume(web0), objects{volume}))
	file.Entry(t, "the claim is gone: its successor is created", p.String())
	made := p.Actions[0].Object.(*unstructured.Unstructured)
	if value, _, _ := unstructured.NestedString(made.Object, "spec", "futureField"); value != "kept" {
		t.Errorf("it is %v", made.Object)
	}
	if owner := made.GetOwnerReferences(); len(owner) != 1 || *owner[0].BlockOwnerDeletion {
		t.Errorf("owners %v, which the API server may refuse", owner)
	}
}

func TestClaimThatHasChangedSinceItWasReadIsReadAgain(t *testing.T) {
	in := given(set(moving0(api.MemberSwapping)), journal(web0), held(0), doomed(web0), copied(web0))
	in.ClaimManifests[web0].SetResourceVersion("another")
	golden.Equal(t, Decide(in).String()+"\n")
}

func TestOwnersOfASuccessorComeBack(t *testing.T) {
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

// TestClaimGoesBackWithTheAttributesOfItsVolume: a change of the VolumeAttributesClass that never came true is not asked for again.
func TestClaimGoesBackWithTheAttributesOfItsVolume(t *testing.T) {
	frozen := doomed(web0)
	claim, old := frozen[0].(*corev1.PersistentVolumeClaim), frozen[1].(*corev1.PersistentVolume)
	claim.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName = ptr.To("gold"), ptr.To("silver")
	p := Decide(given(oldSet(moving0(api.MemberSwapping)), journal(web0), pod(0, build.UID("uid-other")), frozen, copied(web0)))
	golden.Equal(t, p.String()+"\n")
	for _, op := range writesOf(p)[0].Ops {
		if text, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "~1claim") && !strings.Contains(text,
			`"volumeAttributesClassName":"silver"`) {
			t.Errorf("it is created as %s", text)
		}
	}
}
