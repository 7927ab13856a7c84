package resources_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// future puts a field that this build does not know at each path.
func future(t *testing.T, object *unstructured.Unstructured, paths ...[]string) *unstructured.Unstructured {
	t.Helper()
	for _, path := range paths {
		if err := unstructured.SetNestedField(object.Object, map[string]any{"deep": int64(1)}, path...); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

func expectFuture(t *testing.T, object *unstructured.Unstructured, paths ...[]string) {
	t.Helper()
	for _, path := range paths {
		if value, found, _ := unstructured.NestedInt64(object.Object, append(slices.Clone(path), "deep")...); !found || value != 1 {
			t.Errorf("field %v is lost", path)
		}
	}
}

// TestMadeSetKeepsUnknownFields at every level, also in the template that changes.
func TestMadeSetKeepsUnknownFields(t *testing.T) {
	paths := [][]string{{"spec", "future"}, {"metadata", "future"}, {"spec", "template", "future"}, {"spec", "updateStrategy", "future"}}
	set := future(t, build.Raw(workload()), paths...)
	template := set.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	future(t, &unstructured.Unstructured{Object: template}, []string{"spec", "future"}, []string{"spec", "resources", "future"})
	made := resources.MakeSet(set, []api.TemplateTarget{{Name: "data", Size: resource.MustParse("128Mi")}}, resize())
	expectFuture(t, made, paths...)
	changed := made.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	expectFuture(t, &unstructured.Unstructured{Object: changed}, []string{"spec", "future"}, []string{"spec", "resources", "future"})
}

func TestSuccessorKeepsUnknownFields(t *testing.T) {
	paths := [][]string{{"spec", "future"}, {"metadata", "future"}, {"spec", "resources", "future"}}
	made := resources.MakeSuccessor(future(t, build.Raw(found()), paths...), volume("pv"), api.Target{Size: resource.MustParse("1Gi")},
		link(api.RoleSuccessor))
	expectFuture(t, made, paths...)
}

func TestClaimOfATemplateKeepsUnknownFields(t *testing.T) {
	set := build.Raw(workload())
	template := set.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	future(t, &unstructured.Unstructured{Object: template}, []string{"spec", "future"})
	claim := resources.MakeClaim(set, "data", "data-web-0")
	expectFuture(t, claim, []string{"spec", "future"})
	if claim.GetName() != "data-web-0" || claim.GetNamespace() != build.Namespace || claim.GetLabels()["app"] != "web" {
		t.Errorf("it is %v", claim.Object)
	}
}

// TestTemplateOfAnotherClassHasNoAttributesClass: it belongs to the driver of the old class.
func TestTemplateOfAnotherClassHasNoAttributesClass(t *testing.T) {
	set := workload()
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName = ptr.To("gold")
	for class, want := range map[string]string{"": "gold", "fixed": "gold", "fast": ""} {
		made := build.As[appsv1.StatefulSet](resources.MakeSet(build.Raw(set), []api.TemplateTarget{{Name: "data",
			Size: resource.MustParse("128Mi"), Class: class}}, resize()))
		if is := ptr.Deref(made.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName, ""); is != want {
			t.Errorf("class %q: the template asks for attributes class %q, want %q", class, is, want)
		}
	}
}

func TestSuccessorHasTheAttributesClassOfItsVolume(t *testing.T) {
	for _, class := range []*string{nil, ptr.To("silver")} {
		on := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: class}}
		made := build.As[corev1.PersistentVolumeClaim](resources.MakeSuccessor(build.Raw(found()), on,
			api.Target{Size: resource.MustParse("1Gi")}, link(api.RoleSuccessor)))
		if is := made.Spec.VolumeAttributesClassName; ptr.Deref(is, "") != ptr.Deref(class, "") {
			t.Errorf("it asks for %q, its volume has %q", ptr.Deref(is, ""), ptr.Deref(class, ""))
		}
	}
}

func TestMadeObjectsBlockNoOwner(t *testing.T) {
	owner := []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "main", UID: "uid-main",
		BlockOwnerDeletion: ptr.To(true)}}
	set, claim := workload(), found()
	set.OwnerReferences, claim.OwnerReferences = owner, owner
	successor := resources.MakeSuccessor(build.Raw(claim), volume("pv"), api.Target{Size: resource.MustParse("1Gi")}, link(api.RoleSuccessor))
	for name, made := range map[string]*unstructured.Unstructured{
		"set": resources.MakeSet(build.Raw(set), nil, resize()), "claim": resources.UnblockOwners(successor),
	} {
		if owners := made.GetOwnerReferences(); len(owners) != 1 || *owners[0].BlockOwnerDeletion {
			t.Errorf("%s: owners %+v", name, owners)
		}
	}
	if owners := successor.GetOwnerReferences(); !*owners[0].BlockOwnerDeletion {
		t.Error("the manifest of the claim does not tell any more that its owner is blocked")
	}
}

func TestUnknownTemplateMakesAClaimOfItsName(t *testing.T) {
	if claim := resources.MakeClaim(build.Raw(workload()), "none", "none-web-0"); claim.GetName() != "none-web-0" {
		t.Errorf("it is %v", claim.Object)
	}
}
