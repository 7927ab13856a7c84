package resources_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestSetFieldsAndUndo: the set gets the fields of the request, and nothing else changes. With its former fields, the set has its former
// state again.
func TestSetFieldsAndUndo(t *testing.T) {
	const label, added = "data/labels/example.com/tier=gold", "+logs=1Gi@fast:RWO"
	for text, want := range map[string]string{
		"serviceName=db":                  "db OrderedReady data[]",
		"podManagementPolicy=Parallel":    "web Parallel data[]",
		label:                             "web OrderedReady data[tier=gold]",
		"data/annotations/cron=0 3 * * *": "web OrderedReady data[cron=0 3 * * *]",
		added:                             "web OrderedReady data[] logs[1Gi fast ReadWriteOnce]",
		"-data":                           "web OrderedReady",
		"-data," + added:                  "web OrderedReady logs[1Gi fast ReadWriteOnce]",
	} {
		t.Run(text, func(t *testing.T) {
			set := workload()
			set.Spec.VolumeClaimTemplates = set.Spec.VolumeClaimTemplates[:1]
			set.Spec.ServiceName, set.Spec.PodManagementPolicy = "web", appsv1.OrderedReadyPodManagement
			request, err := api.ParseRequest(text)
			if err != nil {
				t.Fatal(err)
			}
			if unmet := statefulset.Unmet(set, request.Fields); len(unmet) != len(request.Fields) {
				t.Fatalf("the set lacks %v", api.Words(unmet))
			}
			formerFields, former := statefulset.FieldsOf(set, request.Fields), describeSet(set)
			raw := resources.SetFields(build.Untyped(set), request.Fields)
			changed := build.Typed[appsv1.StatefulSet](raw)
			if got := describeSet(changed); got != want {
				t.Errorf("the set is %s, want %s", got, want)
			}
			if unmet := statefulset.Unmet(changed, request.Fields); len(unmet) > 0 {
				t.Errorf("the changed set lacks %v", api.Words(unmet))
			}
			undone := build.Typed[appsv1.StatefulSet](resources.SetFields(raw, formerFields))
			if got := describeSet(undone); !strings.HasPrefix(text, "-") && got != former {
				t.Errorf("with the former fields the set is %s, want %s", got, former)
			}
		})
	}
}

// describeSet renders the parts of a set that fields can change.
func describeSet(set *appsv1.StatefulSet) string {
	words := []string{set.Spec.ServiceName, string(set.Spec.PodManagementPolicy)}
	for _, c := range set.Spec.VolumeClaimTemplates {
		var parts []string
		if c.Name != "data" {
			size := statefulset.Requested(&c)
			parts = append(parts, size.String(), statefulset.ClassOf(&c), string(c.Spec.AccessModes[0]))
		}
		if tier, has := c.Labels["example.com/tier"]; has {
			parts = append(parts, "tier="+tier)
		}
		if cron, has := c.Annotations["cron"]; has {
			parts = append(parts, "cron="+cron)
		}
		words = append(words, c.Name+"["+strings.Join(parts, " ")+"]")
	}
	return strings.Join(words, " ")
}

// addUnknownFields adds a field that this build does not know at each path.
func addUnknownFields(t *testing.T, object *unstructured.Unstructured, paths ...[]string) *unstructured.Unstructured {
	t.Helper()
	for _, path := range paths {
		if err := unstructured.SetNestedField(object.Object, map[string]any{"deep": int64(1)}, path...); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

func expectUnknownFields(t *testing.T, object *unstructured.Unstructured, paths ...[]string) {
	t.Helper()
	for _, path := range paths {
		if value, found, _ := unstructured.NestedInt64(object.Object, append(slices.Clone(path), "deep")...); !found || value != 1 {
			t.Errorf("field %v is lost", path)
		}
	}
}

// TestReplacedSetKeepsUnknownFields: unknown fields survive at every level, also in the template that changes.
func TestReplacedSetKeepsUnknownFields(t *testing.T) {
	paths := [][]string{{"spec", "future"}, {"metadata", "future"}, {"spec", "template", "future"}, {"spec", "updateStrategy", "future"}}
	set := addUnknownFields(t, build.Untyped(workload()), paths...)
	template := set.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	addUnknownFields(t, &unstructured.Unstructured{Object: template}, []string{"spec", "future"}, []string{"spec", "resources", "future"})
	built := resources.MakeSet(set, []api.TemplateTarget{{Name: "data", Size: resource.MustParse("128Mi")}}, resize())
	expectUnknownFields(t, built, paths...)
	changed := built.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	expectUnknownFields(t, &unstructured.Unstructured{Object: changed}, []string{"spec", "future"}, []string{"spec", "resources", "future"})
}

func TestSuccessorKeepsUnknownFields(t *testing.T) {
	paths := [][]string{{"spec", "future"}, {"metadata", "future"}, {"spec", "resources", "future"}}
	built := resources.MakeSuccessor(addUnknownFields(t, build.Untyped(sourceClaim()), paths...), volume("pv"),
		api.Target{Size: resource.MustParse("1Gi")},
		link(api.RoleNewClaim))
	expectUnknownFields(t, built, paths...)
}

func TestClaimOfTemplateKeepsUnknownFields(t *testing.T) {
	set := build.Untyped(workload())
	template := set.Object["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	addUnknownFields(t, &unstructured.Unstructured{Object: template}, []string{"spec", "future"})
	claim := resources.MakeClaim(set, "data", "data-web-0")
	expectUnknownFields(t, claim, []string{"spec", "future"})
	if claim.GetName() != "data-web-0" || claim.GetNamespace() != build.Namespace || claim.GetLabels()["app"] != "web" {
		t.Errorf("the claim is %v", claim.Object)
	}
}

// TestTemplateOfOtherClassLosesAttributesClass: the attributes class belongs to the driver of the old class.
func TestTemplateOfOtherClassLosesAttributesClass(t *testing.T) {
	set := workload()
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName = ptr.To("gold")
	for class, want := range map[string]string{"": "gold", "fixed": "gold", "fast": ""} {
		built := build.Typed[appsv1.StatefulSet](resources.MakeSet(build.Untyped(set), []api.TemplateTarget{{Name: "data",
			Size: resource.MustParse("128Mi"), Class: class}}, resize()))
		if got := ptr.Deref(built.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName, ""); got != want {
			t.Errorf("class %q: the template has attributes class %q, want %q", class, got, want)
		}
	}
}

func TestSuccessorHasAttributesClassOfItsVolume(t *testing.T) {
	for _, class := range []*string{nil, ptr.To("silver")} {
		on := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: class}}
		built := build.Typed[corev1.PersistentVolumeClaim](resources.MakeSuccessor(build.Untyped(sourceClaim()), on,
			api.Target{Size: resource.MustParse("1Gi")}, link(api.RoleNewClaim)))
		if got := built.Spec.VolumeAttributesClassName; ptr.Deref(got, "") != ptr.Deref(class, "") {
			t.Errorf("the claim requests %q, its volume has %q", ptr.Deref(got, ""), ptr.Deref(class, ""))
		}
	}
}

func TestNewObjectsDoNotBlockOwners(t *testing.T) {
	owner := []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "main", UID: "uid-main",
		BlockOwnerDeletion: ptr.To(true)}}
	set, claim := workload(), sourceClaim()
	set.OwnerReferences, claim.OwnerReferences = owner, owner
	successor := resources.MakeSuccessor(
		build.Untyped(claim),
		volume("pv"),
		api.Target{Size: resource.MustParse("1Gi")},
		link(api.RoleNewClaim),
	)
	for name, built := range map[string]*unstructured.Unstructured{
		"set": resources.MakeSet(build.Untyped(set), nil, resize()), "claim": resources.UnblockOwners(successor),
	} {
		if owners := built.GetOwnerReferences(); len(owners) != 1 || *owners[0].BlockOwnerDeletion {
			t.Errorf("%s: owners %+v", name, owners)
		}
	}
	if owners := successor.GetOwnerReferences(); !*owners[0].BlockOwnerDeletion {
		t.Error("the manifest of the claim has lost blockOwnerDeletion")
	}
}

func TestClaimOfUnknownTemplateHasOnlyItsName(t *testing.T) {
	if claim := resources.MakeClaim(build.Untyped(workload()), "none", "none-web-0"); claim.GetName() != "none-web-0" {
		t.Errorf("the claim is %v", claim.Object)
	}
}
