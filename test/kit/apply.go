package kit

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
)

// InstallApply installs the policies of config/overlays/apply for this world's namespace alone, and waits until they are in force. They end
// with the test.
func (w *World) InstallApply() {
	w.T.Helper()
	policy, binding := &admissionv1beta1.MutatingAdmissionPolicy{}, &admissionv1beta1.MutatingAdmissionPolicyBinding{}
	w.overlay("templates.yaml", policy, binding)
	warnings, warned := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	w.overlay("warnings.yaml", warnings, warned)

	name := w.Namespace + "-" + policy.Name
	policy.Name, binding.Name, binding.Spec.PolicyName = name, name, name
	namespace := only(w.Namespace).NamespaceSelector
	binding.Spec.MatchResources = &admissionv1beta1.MatchResources{NamespaceSelector: namespace}
	warnings.Name, warned.Name, warned.Spec.PolicyName = name, name, name
	warned.Spec.MatchResources = only(w.Namespace)
	w.install(warnings, warned)

	ctx, beta, v1 := context.Background(), w.Kube.AdmissionregistrationV1beta1(), w.Kube.AdmissionregistrationV1()
	_, err := beta.MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	w.must(err)
	_, err = beta.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() {
		_ = beta.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
		_ = beta.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})
		_ = v1.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
		_ = v1.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})
	})
	w.awaitApply()
}

// awaitApply waits until a dry run of larger templates succeeds.
func (w *World) awaitApply() {
	w.T.Helper()
	ctx, sets := context.Background(), w.Kube.AppsV1().StatefulSets(w.Namespace)
	_, err := sets.Create(ctx, WorldSet("probe", 0, "64Mi", "data"), metav1.CreateOptions{})
	w.must(err)
	w.Eventually("larger templates are taken as a request", func() string {
		set := w.Set("probe")
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"] = *Quantity("128Mi")
		set, err := sets.Update(ctx, set, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if set.Annotations[api.ResizeAnnotation] == "" {
			return "there is no request"
		}
		return ""
	})
	w.DeleteSet("probe", metav1.DeletePropagationBackground)
}

func (w *World) overlay(file string, policy, binding any) {
	w.T.Helper()
	text, err := os.ReadFile(filepath.Join(Root(w.T), "config", "overlays", "apply", file))
	w.must(err)
	policyText, bindingText, _ := strings.Cut(string(text), "\n---\n")
	w.must(yaml.UnmarshalStrict([]byte(policyText), policy))
	w.must(yaml.UnmarshalStrict([]byte(bindingText), binding))
}
