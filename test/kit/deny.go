package kit

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DenyScalingToZero makes the API server deny to scale the set to zero, and waits until it does.
func (w *World) DenyScalingToZero(set string) {
	w.T.Helper()
	ctx := context.Background()
	w.deny(admissionv1.Update, "apps", "statefulsets", fmt.Sprintf("object.metadata.name != %q || object.spec.replicas > 0", set))
	w.Eventually("the policy is in force", func() string {
		now := w.Set(set)
		zero := int32(0)
		now.Spec.Replicas = &zero
		if _, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Update(ctx, now,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return "it is not"
		}
		return ""
	})
}

// DenyCreation makes the API server deny new objects unless the expression is true for them. This comes into force
// after a moment.
func (w *World) DenyCreation(group, resource, expression string) {
	w.T.Helper()
	w.deny(admissionv1.Create, group, resource, expression)
}

func (w *World) deny(operation admissionv1.OperationType, group, resource, expression string) {
	w.T.Helper()
	ctx, name, fail := context.Background(), w.Namespace+"-deny", admissionv1.Fail
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{operation},
					Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
						Resources: []string{resource}}}}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: "denied by a test"}},
		}}
	admission := w.Kube.AdmissionregistrationV1()
	_, err := admission.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() { _ = admission.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}) })
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.Namespace}}},
		}}
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() { _ = admission.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}) })
}
