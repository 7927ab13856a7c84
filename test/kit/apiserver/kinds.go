package apiserver

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	errModified     = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errPrecondition = errors.New("the UID or the resourceVersion in the precondition does not match")
)

// kind describes a resource.
type kind struct {
	group, version, name string
	namespaced, status   bool
	begin                func(o *Object)       // completes a new object
	grace                func(o *Object) int64 // how many seconds the object remains after its deletion
	check                func(before, after *Object) *field.Error
}

var kinds = map[string]kind{
	"namespaces": {version: "v1", name: "Namespace", status: true},
	"nodes":      {version: "v1", name: "Node"},
	"events":     {version: "v1", name: "Event", namespaced: true},
	"configmaps": {version: "v1", name: "ConfigMap", namespaced: true},
	"pods":       {version: "v1", name: "Pod", namespaced: true, status: true, begin: pending, grace: graceOfPod},
	"persistentvolumeclaims": {version: "v1", name: "PersistentVolumeClaim", namespaced: true, status: true, begin: protect,
		check: claimOnlyGrows},
	"persistentvolumes":        {version: "v1", name: "PersistentVolume", status: true},
	"resourcequotas":           {version: "v1", name: "ResourceQuota", namespaced: true, status: true},
	"limitranges":              {version: "v1", name: "LimitRange", namespaced: true},
	"statefulsets":             {group: "apps", version: "v1", name: "StatefulSet", namespaced: true, status: true, check: setKeepsTemplates},
	"controllerrevisions":      {group: "apps", version: "v1", name: "ControllerRevision", namespaced: true},
	"jobs":                     {group: "batch", version: "v1", name: "Job", namespaced: true, status: true},
	"poddisruptionbudgets":     {group: "policy", version: "v1", name: "PodDisruptionBudget", namespaced: true, status: true},
	"horizontalpodautoscalers": {group: "autoscaling", version: "v2", name: "HorizontalPodAutoscaler", namespaced: true, status: true},
	"storageclasses":           {group: "storage.k8s.io", version: "v1", name: "StorageClass"},
	"volumeattributesclasses":  {group: "storage.k8s.io", version: "v1", name: "VolumeAttributesClass"},
	"volumeattachments":        {group: "storage.k8s.io", version: "v1", name: "VolumeAttachment"},
	"csinodes":                 {group: "storage.k8s.io", version: "v1", name: "CSINode"},
	"csidrivers":               {group: "storage.k8s.io", version: "v1", name: "CSIDriver"},
	"scalers":                  {group: "drydock.dev", version: "v1alpha1", name: "Scaler", namespaced: true, status: true},
	// The custom resources of operators, see operator.go in test/swarm.
	"postgresclusters":      {group: "postgres-operator.crunchydata.com", version: "v1beta1", name: "PostgresCluster", namespaced: true},
	"rabbitmqclusters":      {group: "rabbitmq.com", version: "v1beta1", name: "RabbitmqCluster", namespaced: true},
	"perconaxtradbclusters": {group: "pxc.percona.com", version: "v1", name: "PerconaXtraDBCluster", namespaced: true},
	"infinispans":           {group: "infinispan.org", version: "v1", name: "Infinispan", namespaced: true},
}

func (k kind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.name}
}

func (k kind) resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: name}
}

// merge returns the object that a write of a part stores: a write of the status changes nothing else, and other writes do not change it.
func (k kind) merge(before, after *Object, part string) *Object {
	if !k.status {
		return keepFixed(before, after)
	}
	from, to := before, after
	if part == "status" {
		from, to = after, before.DeepCopy()
	}
	if status, found := from.Object["status"]; found {
		to.Object["status"] = status
	} else {
		delete(to.Object, "status")
	}
	return keepFixed(before, to)
}

// keepFixed keeps the metadata that no client can change.
func keepFixed(before, after *Object) *Object {
	for _, name := range []string{"name", "namespace", "creationTimestamp", "deletionTimestamp", "generation"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(before.Object, "metadata", name); found {
			_ = unstructured.SetNestedField(after.Object, value, "metadata", name)
		} else {
			unstructured.RemoveNestedField(after.Object, "metadata", name)
		}
	}
	return after
}

// validate refuses what the API server refuses.
func (k kind) validate(key Key, before, after *Object) error {
	var invalid *field.Error
	if before.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) > len(before.GetFinalizers()) {
		invalid = field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted")
	} else if k.check != nil {
		invalid = k.check(before, after)
	}
	if invalid == nil {
		return nil
	}
	return apierrors.NewInvalid(k.gvk().GroupKind(), key.Name, field.ErrorList{invalid})
}

func pending(o *Object) { setField(o, string(corev1.PodPending), "status", "phase") }

func protect(o *Object) {
	o.SetFinalizers([]string{"kubernetes.io/pvc-protection"})
	setField(o, string(corev1.ClaimPending), "status", "phase")
}

// graceOfPod returns zero for a pod that does not run, which is removed at once.
func graceOfPod(o *Object) int64 {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	if node == "" || phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
		return 0
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// claimOnlyGrows refuses a size below the capacity (kubernetes pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
func claimOnlyGrows(_, after *Object) *field.Error {
	has, _, _ := unstructured.NestedString(after.Object, "status", "capacity", "storage")
	wants, _, _ := unstructured.NestedString(after.Object, "spec", "resources", "requests", "storage")
	if has == "" {
		return nil
	}
	if size := resource.MustParse(wants); size.Cmp(resource.MustParse(has)) < 0 {
		return field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), fmt.Sprintf("field can not be less than %s", has))
	}
	return nil
}

// setKeepsTemplates refuses what cannot change in a StatefulSet (kubernetes pkg/apis/apps/validation, ValidateStatefulSetUpdate).
func setKeepsTemplates(before, after *Object) *field.Error {
	for _, name := range []string{"volumeClaimTemplates", "serviceName", "selector", "podManagementPolicy"} {
		was, _, _ := unstructured.NestedFieldNoCopy(before.Object, "spec", name)
		is, _, _ := unstructured.NestedFieldNoCopy(after.Object, "spec", name)
		if !equality.Semantic.DeepEqual(was, is) {
			return field.Forbidden(field.NewPath("spec"), "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "+
				"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
		}
	}
	return nil
}

func setField(o *Object, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}
