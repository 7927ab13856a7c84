package kit

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/owners/rights"
)

// customVersion is the version of every custom resource in a World.
const customVersion = "v1test1"

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (w *World) dynamic() dynamic.Interface { return dynamic.NewForConfigOrDie(w.Config) }

// DefineKind defines a custom resource of the row, with any fields, and waits until the API server serves it.
func (w *World) DefineKind(row owners.Row, kind string) {
	w.T.Helper()
	plural := row.Plural(kind)
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + row.Group},
		"spec": map[string]any{
			"group": row.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{"name": customVersion, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
	_, err := w.dynamic().Resource(definitions).Create(context.Background(), definition, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.T.Fatalf("defining %s: %v", kind, err)
	}
	w.Eventually(kind+" is served", func() string {
		_, err := w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

func (w *World) custom(row owners.Row, kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: row.Group, Version: customVersion, Resource: row.Plural(kind)}
}

// CreateCustom creates a custom resource, and lets Drydock pause the owners of its namespace. Another custom resource may control it.
func (w *World) CreateCustom(row owners.Row, kind, name string, spec map[string]any,
	controller *unstructured.Unstructured) *unstructured.Unstructured {
	w.T.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(row.Group + "/" + customVersion)
	object.SetKind(kind)
	object.SetName(name)
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToPause))
	if controller != nil {
		object.SetOwnerReferences([]metav1.OwnerReference{controllerRef(controller)})
	}
	made, err := w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Create(context.Background(), object,
		metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() {
		_ = w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return made
}

// Custom reads a custom resource. It returns nil if the resource does not exist.
func (w *World) Custom(row owners.Row, kind, name string) *unstructured.Unstructured {
	w.T.Helper()
	object, err := w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return object
}

// UpdateCustom changes a custom resource.
func (w *World) UpdateCustom(row owners.Row, kind, name string, change func(*unstructured.Unstructured)) {
	w.T.Helper()
	object := w.Custom(row, kind, name)
	change(object)
	_, err := w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Update(context.Background(), object, metav1.UpdateOptions{})
	w.must(err)
}

// TryUnannotateCustom removes an annotation of a custom resource. The annotation may be missing.
func (w *World) TryUnannotateCustom(row owners.Row, kind, name, key string) {
	w.T.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, key)
	_, err := w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Patch(context.Background(), name, types.MergePatchType,
		body, metav1.PatchOptions{})
	w.must(err)
}

// DeleteCustom deletes a custom resource as a user would.
func (w *World) DeleteCustom(row owners.Row, kind, name string) {
	w.T.Helper()
	w.must(w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// OrphanCustom deletes a custom resource, keeps its dependents, and waits for the garbage collector. It learns of a new kind within half a
// minute.
func (w *World) OrphanCustom(row owners.Row, kind, name string) {
	w.T.Helper()
	orphan := metav1.DeletePropagationOrphan
	w.must(w.dynamic().Resource(w.custom(row, kind)).Namespace(w.Namespace).Delete(context.Background(), name,
		metav1.DeleteOptions{PropagationPolicy: &orphan}))
	w.Eventually(kind+" is gone", func() string {
		if w.Custom(row, kind, name) != nil {
			return "it is there"
		}
		return ""
	})
}

func controllerRef(owner *unstructured.Unstructured) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		Controller: &yes}
}

// SetController makes the custom resource the controller of the StatefulSet.
func (w *World) SetController(set string, owner *unstructured.Unstructured) {
	w.T.Helper()
	ref := controllerRef(owner)
	w.patchSet(set, fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]}}`,
		ref.APIVersion, ref.Kind, ref.Name, ref.UID))
}

// GrantPause grants pause-owner the rights that `kubectl drydock rbac` prints for the operators, and waits until they are
// in force.
func (w *World) GrantPause(operators ...string) {
	w.T.Helper()
	roles, err := rights.Roles(owners.BuiltIn(), operators...)
	w.must(err)
	for _, role := range roles {
		if _, err := w.Kube.RbacV1().ClusterRoles().Create(context.Background(), role, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating role %s: %v", role.Name, err)
		}
	}
	w.awaitRights(roles, true)
}

// RevokePause removes the rights that an earlier test may have granted.
func (w *World) RevokePause(operators ...string) {
	w.T.Helper()
	roles, err := rights.Roles(owners.BuiltIn(), operators...)
	w.must(err)
	for _, role := range roles {
		err := w.Kube.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.T.Fatalf("deleting role %s: %v", role.Name, err)
		}
	}
	w.awaitRights(roles, false)
}

func (w *World) awaitRights(roles []*rbacv1.ClusterRole, want bool) {
	w.T.Helper()
	for _, role := range roles {
		rule := role.Rules[len(role.Rules)-1]
		w.Eventually("what pause-owner may do follows "+role.Name, func() string {
			review, err := w.Kube.AuthorizationV1().SubjectAccessReviews().Create(context.Background(),
				&authorizationv1.SubjectAccessReview{
					Spec: authorizationv1.SubjectAccessReviewSpec{
						User: "system:serviceaccount:drydock:" + string(api.PauseOwner),
						ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.Namespace, Verb: "get",
							Group: rule.APIGroups[0], Resource: rule.Resources[0]},
					}}, metav1.CreateOptions{})
			if err != nil || review.Status.Allowed != want {
				return fmt.Sprintf("it does not: %v", err)
			}
			return ""
		})
	}
}
