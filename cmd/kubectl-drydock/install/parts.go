package install

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Parts are the sorted names of an installation's objects.
type Parts struct {
	// Functions and Triggers exist on Knative.
	Functions, Triggers []string
	// Accounts are the ServiceAccounts in namespace drydock.
	Accounts, ClusterRoles []string
	// Bindings are ClusterRoleBindings that every installation has. An installation for one namespace has those of FunctionBindings as
	// RoleBindings there.
	Bindings, FunctionBindings []string
	// Policies are the ValidatingAdmissionPolicies whose binding rejects requests. The binding of Warnings only warns.
	Policies, Warnings []string
}

// Expected returns the parts of an installation of this version, from its manifests.
var Expected = sync.OnceValues(func() (Parts, error) {
	all, err := Render(Options{Mode: Knative})
	if err != nil {
		return Parts{}, err
	}
	functions, err := render(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../config/bindings"}})
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Functions: named(all, "serving.knative.dev/v1", "Service"), Triggers: named(all, "eventing.knative.dev/v1", "Trigger"),
		Accounts: named(all, "v1", "ServiceAccount"), ClusterRoles: named(all, "rbac.authorization.k8s.io/v1", "ClusterRole"),
		Bindings:         named(all, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
		FunctionBindings: named(functions, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding")}
	p.Bindings = slices.DeleteFunc(p.Bindings, func(name string) bool { return slices.Contains(p.FunctionBindings, name) })
	for _, object := range all {
		if object.GetKind() != "ValidatingAdmissionPolicyBinding" {
			continue
		}
		policy, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
		actions, _, err := unstructured.NestedStringSlice(object.Object, "spec", "validationActions")
		if err != nil {
			return Parts{}, err
		}
		if slices.Contains(actions, "Deny") {
			p.Policies = append(p.Policies, policy)
		} else {
			p.Warnings = append(p.Warnings, policy)
		}
	}
	slices.Sort(p.Policies)
	slices.Sort(p.Warnings)
	return p, nil
})

// named returns the sorted names of the objects of the kind.
func named(objects []*unstructured.Unstructured, version, kind string) []string {
	var names []string
	for _, object := range objects {
		if object.GetAPIVersion() == version && object.GetKind() == kind {
			names = append(names, object.GetName())
		}
	}
	slices.Sort(names)
	return names
}
