package command

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/cmd/kubectl-drydock/install"
)

const admission = "admissionregistration.k8s.io"

// policyObject is the part of a ValidatingAdmissionPolicy or its binding that doctor reads.
type policyObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

func (o *policyObject) binding() doctor.Binding {
	policy, _, _ := unstructured.NestedString(o.Spec, "policyName")
	actions, _, _ := unstructured.NestedStringSlice(o.Spec, "validationActions")
	return doctor.Binding{Policy: policy, Denies: slices.Contains(actions, string(admissionv1.Deny))}
}

func (s *session) policies(ctx context.Context, mutating string) doctor.Policies {
	var p doctor.Policies
	if mutating != "" {
		apply := one[metav1.PartialObjectMetadata](ctx, s, kindOf(admission, mutating, "mutatingadmissionpolicies"), "", "drydock-templates")
		p.Apply = doctor.Convert(apply, func(o *metav1.PartialObjectMetadata) bool { return o != nil })
	}
	policies := listed[policyObject](ctx, s, kindOf(admission, "v1", "validatingadmissionpolicies"), "", metav1.ListOptions{})
	p.Validating = doctor.Convert(policies, func(all []policyObject) []string {
		var names []string
		for i := range all {
			names = append(names, all[i].Metadata.Name)
		}
		return names
	})
	bindings := listed[policyObject](ctx, s, kindOf(admission, "v1", "validatingadmissionpolicybindings"), "", metav1.ListOptions{})
	p.Bindings = doctor.Convert(bindings, func(all []policyObject) []doctor.Binding {
		var bindings []doctor.Binding
		for i := range all {
			bindings = append(bindings, all[i].binding())
		}
		return bindings
	})
	p.Different = different(map[string][]policyObject{"ValidatingAdmissionPolicy": policies.Value,
		"ValidatingAdmissionPolicyBinding": bindings.Value})
	return p
}

// different returns the policies whose text in the cluster, or that of their binding, is not the text of this version. The map has the
// cluster's objects by kind. Missing ones are another finding.
func different(live map[string][]policyObject) doctor.Answer[[]string] {
	manifests, err := install.Policies()
	if err != nil {
		return doctor.Answer[[]string]{Failed: err.Error()}
	}
	var names []string
	for _, manifest := range manifests {
		for _, o := range live[manifest.GetKind()] {
			if o.Metadata.Name == manifest.GetName() && install.Differs(manifest.Object["spec"], o.Spec) {
				names = append(names, manifest.GetName())
			}
		}
	}
	slices.Sort(names)
	return doctor.Answer[[]string]{Value: slices.Compact(names)}
}
