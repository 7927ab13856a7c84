// Package build makes Kubernetes objects and records for tests of pure functions, in as few words as a table needs:
//
//	build.Set("web", build.Replicas(3), build.Template("data", "64Mi", "fixed"), build.Status(status))
//
// Without options an object belongs to a quiet set: claims are bound, pods are ready, controllers have observed everything. Names derive
// from each other: claim data-web-0 has the UID uid-data-web-0 and is bound to volume pv-data-web-0.
package build

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

const (
	// Namespace is the namespace of every namespaced object.
	Namespace = "shop"
	// ID is the id of the operation.
	ID = "0123456789ab"
	// Class is the StorageClass of claims and volumes. OfClass sets another one.
	Class = "fixed"
	// NodeName is the node of all pods.
	NodeName = "node-1"
)

// Now is the time of every test.
var Now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// Settings returns settings for tests. Most limits differ from the defaults and from each other, so that a message or a deadline shows
// which one was used.
func Settings() api.Settings {
	return api.Settings{
		Image: "registry.example/drydock:1", Parallelism: 2, Retention: 24 * time.Hour,
		PlanTimeout: 10 * time.Minute, ExpandTimeout: time.Hour, ExpandPatience: 5 * time.Minute, CopyTimeout: 20 * time.Hour,
		QuiesceTimeout: 15 * time.Minute, StartTimeout: 11 * time.Minute, SwapTimeout: 12 * time.Minute, ReadyTimeout: 30 * time.Minute,
		ProgressPeriod: 10 * time.Second, ProgressTimeout: 25 * time.Minute, SleepRetry: 10 * time.Minute, ProbeTimeout: 5 * time.Second,
	}
}

// Option changes an object while it is built. It panics if it gets an object of the wrong kind.
type Option func(metav1.Object)

// Edit returns an option that applies the change.
func Edit[T metav1.Object](change func(T)) Option {
	return func(o metav1.Object) { change(o.(T)) }
}

// With applies options to an existing object and returns it.
func With[T metav1.Object](object T, options ...Option) T {
	for _, option := range options {
		option(object)
	}
	return object
}

// Annotation sets an annotation.
func Annotation(key, value string) Option {
	return func(o metav1.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}

// Label sets a label. An empty value removes the label.
func Label(key, value string) Option {
	return func(o metav1.Object) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		if value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

// UID sets the identity.
func UID(uid string) Option {
	return func(o metav1.Object) { o.SetUID(types.UID(uid)) }
}

// Generation sets metadata.generation, which the API server raises with every change of a spec.
func Generation(generation int64) Option {
	return func(o metav1.Object) { o.SetGeneration(generation) }
}

// Finalizers replaces the finalizers.
func Finalizers(names ...string) Option {
	return func(o metav1.Object) { o.SetFinalizers(names) }
}

// Deleting sets a deletion timestamp.
func Deleting() Option {
	return func(o metav1.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: Now}) }
}

// Age sets the creation timestamp to that long ago.
func Age(age time.Duration) Option {
	return func(o metav1.Object) { o.SetCreationTimestamp(metav1.NewTime(Now.Add(-age))) }
}

// ControlledBy makes another object the controller of this one.
func ControlledBy(kind, name string) Option {
	return func(o metav1.Object) {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: kind, Name: name,
			UID: types.UID("uid-" + name), Controller: &yes}})
	}
}

// Link links the object to the operation on set web, and to a claim unless its name is empty.
func Link(role api.Role, claim string) Option {
	return LinkOf(api.Link{Operation: ID, Role: role, Namespace: Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: claim})
}

// MemberLink links the object to a member of the operation on set web.
func MemberLink(role api.Role, ordinal int) Option {
	return LinkOf(api.Link{Operation: ID, Role: role, Namespace: Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Member: &ordinal})
}

// LinkOf links the object to an operation.
func LinkOf(link api.Link) Option {
	return func(o metav1.Object) {
		if _, ok := o.(*corev1.PersistentVolume); ok {
			Label(api.NamespaceLabel, link.Namespace)(o)
		}
		Label(api.OperationLabel, link.Operation)(o)
		Annotation(api.OperationAnnotation, link.Encode())(o)
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "rv-" + name,
		CreationTimestamp: metav1.NewTime(Now.Add(-time.Minute))}
}

// setOf returns the set in a claim name of the form TEMPLATE-SET-ORDINAL.
func setOf(claim string) string {
	parts := strings.Split(claim, "-")
	if len(parts) < 3 {
		return claim
	}
	return strings.Join(parts[1:len(parts)-1], "-")
}

func claimVolumes(claims []string) []corev1.Volume {
	var volumes []corev1.Volume
	for i, c := range claims {
		volumes = append(volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return volumes
}

func quantity(size string) resource.Quantity { return resource.MustParse(size) }

// World builds the observed world of StatefulSet web from the objects. Without a StatefulSet among them the set does
// not exist.
func World(objects ...metav1.Object) *world.Observed {
	o := &world.Observed{Now: Now, Name: "web", Volumes: map[string]*corev1.PersistentVolume{}, Nodes: map[string]*corev1.Node{},
		ClaimManifests: map[string]*unstructured.Unstructured{}}
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			o.Set, o.Name, o.SetJSON = object, object.Name, JSON(object)
		case *corev1.PersistentVolumeClaim:
			o.Claims = append(o.Claims, object)
			o.ClaimManifests[object.Name] = Untyped(object)
		case *corev1.PersistentVolume:
			o.Volumes[object.Name] = object
		case *corev1.Pod:
			o.Pods = append(o.Pods, object)
		case *batchv1.Job:
			o.Jobs = append(o.Jobs, object)
		case *appsv1.ControllerRevision:
			o.Journals = append(o.Journals, object)
		case *corev1.Node:
			o.Nodes[object.Name] = object
		case *storagev1.VolumeAttachment:
			o.Attachments = append(o.Attachments, object)
		default:
			panic(fmt.Sprintf("a world has no %T", object))
		}
	}
	return o
}

// Typed converts the object to a Go type, by its JSON.
func Typed[T any](object any) *T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	typed := new(T)
	if err := json.Unmarshal(text, typed); err != nil {
		panic(err)
	}
	return typed
}

// Untyped converts a set or a claim to an unstructured object, as the API server returns it.
func Untyped(object metav1.Object) *unstructured.Unstructured {
	apiVersion, kind := "v1", "PersistentVolumeClaim"
	if _, ok := object.(*appsv1.StatefulSet); ok {
		apiVersion, kind = "apps/v1", "StatefulSet"
	}
	raw, err := api.ParseManifest(JSON(object), apiVersion, kind)
	if err != nil {
		panic(err)
	}
	return raw
}

// JSON returns the object as the API server sends it.
func JSON(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

// Patched returns the object after the patches, as the API server stores it. Of its managers, only those of whenScaled change. It fails if
// a patch is for another version of the object.
func Patched[T metav1.Object](object T, patches ...plan.Action) (next T, err error) {
	text := JSON(object)
	for _, a := range patches {
		patch, err := jsonpatch.DecodePatch(JSON(a.Ops))
		if err != nil {
			return next, err
		}
		if slices.ContainsFunc(a.Ops, func(op plan.Op) bool {
			return op.Path == "/metadata/resourceVersion" && op.Value != object.GetResourceVersion()
		}) {
			return next, fmt.Errorf("%s: the object has version %s", a, object.GetResourceVersion())
		}
		if text, err = patch.Apply(text); err != nil {
			return next, fmt.Errorf("%s: %w", a, err)
		}
	}
	if err := json.Unmarshal(text, &next); err != nil {
		return next, err
	}
	if before, ok := any(object).(*appsv1.StatefulSet); ok {
		if after := any(next).(*appsv1.StatefulSet); statefulset.WhenScaled(after) != statefulset.WhenScaled(before) {
			RetainedBy(api.FieldManager)(after)
		}
	}
	return next, nil
}

// After is like Patched, for patches that a function has just decided on the object.
func After[T metav1.Object](object T, patches ...plan.Action) T {
	next, err := Patched(object, patches...)
	if err != nil {
		panic(err)
	}
	return next
}
