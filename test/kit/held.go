package kit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
)

// InstallPolicies installs the policies for held members, sleeping sets and dry runs in this world's namespace alone, and waits until they
// are in force. They are removed at the end of the test.
func (w *World) InstallPolicies() {
	w.T.Helper()
	keepPolicy.Do(func() { w.keepParameters() })
	for _, file := range []string{"sleeping-sets.yaml", "held-sets.yaml", "held-scales.yaml", "dry-run-pods.yaml"} {
		policy, binding := w.policy(file)
		name := w.Namespace + "-" + policy.Name
		policy.Name, binding.Name, binding.Spec.PolicyName = name, name, name
		binding.Spec.MatchResources = only(w.Namespace)
		w.install(policy, binding)
		w.T.Cleanup(func() {
			ctx, admission := context.Background(), w.Kube.AdmissionregistrationV1()
			_ = admission.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
			_ = admission.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
	probe := WorldSet("probe", 0, "64Mi")
	probe.Namespace, probe.Spec.PodManagementPolicy = w.Namespace, appsv1.ParallelPodManagement
	probe.Annotations = map[string]string{api.StatusAnnotation: `{"phase":"Moving","members":[{"ordinal":0,"phase":"Swapping"}]}`}
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), probe, metav1.CreateOptions{})
	w.must(err)
	patience := w.Patience
	w.Patience = 20 * time.Second
	w.Eventually("patching a set with held members is refused", func() string {
		set := w.Set("probe")
		*set.Spec.Replicas = 1
		if _, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Update(context.Background(), set,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return "it is not"
		}
		return ""
	})
	w.AwaitScaleUpDenied("probe")
	w.Patience = patience
	w.DeleteSet("probe", metav1.DeletePropagationBackground)
}

// AwaitScaleUpDenied waits until the API server denies to raise the replicas of a set with held members. Its policy gets the set as a
// parameter, which the API server watches.
func (w *World) AwaitScaleUpDenied(set string) {
	w.T.Helper()
	w.Eventually("scaling "+set+" up is refused", func() string {
		if err := w.TryScaleTo(set, *w.Set(set).Spec.Replicas+1, metav1.DryRunAll); !apierrors.IsForbidden(err) {
			return "the API server allows it. If the last policy with StatefulSets as parameters was removed before, this API server " +
				"does not watch them any more (kubernetes issue 130887). Start another one: make cluster-down cluster SIZE=control-plane"
		}
		return ""
	})
}

// TryScaleTo scales through the set's subresource scale, like kubectl scale and autoscalers.
func (w *World) TryScaleTo(set string, replicas int32, dryRun ...string) error {
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: set, Namespace: w.Namespace},
		Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).UpdateScale(context.Background(), set, scale, metav1.UpdateOptions{DryRun: dryRun})
	return err
}

var keepPolicy sync.Once

// keepParameters installs a policy without effect that is never removed. Without any such policy the API server stops watching StatefulSets
// as parameters, and never starts again (kubernetes issue 130887).
func (w *World) keepParameters() {
	w.T.Helper()
	policy, binding := w.policy("held-scales.yaml")
	policy.Name, binding.Name, binding.Spec.PolicyName = "drydock-test-keep", "drydock-test-keep", "drydock-test-keep"
	binding.Spec.MatchResources = only("no-such-namespace")
	w.install(policy, binding)
}

func only(namespace string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}}
}

func (w *World) policy(file string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	w.T.Helper()
	text, err := os.ReadFile(filepath.Join(Root(w.T), "config", "policy", file))
	w.must(err)
	policyText, bindingText, _ := strings.Cut(string(text), "\n---\n")
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	w.must(yaml.UnmarshalStrict([]byte(policyText), policy))
	w.must(yaml.UnmarshalStrict([]byte(bindingText), binding))
	return policy, binding
}

func (w *World) install(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) {
	w.T.Helper()
	ctx, admission := context.Background(), w.Kube.AdmissionregistrationV1()
	if _, err := admission.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(ctx, binding,
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}

// InstallApply installs the policies of config/apply in the whole cluster and waits until they are in force.
// They are never removed.
func (w *World) InstallApply() {
	w.T.Helper()
	applied.Lock() // several tests run at once
	w.Kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=drydock-config", "-k",
		filepath.Join(Root(w.T), "config", w.applyConfig()))
	applied.Unlock()
	w.awaitApply()
}

var applied sync.Mutex

// applyConfig returns the folder for the version of the API server.
func (w *World) applyConfig() string {
	w.T.Helper()
	_, err := w.Kube.AdmissionregistrationV1beta1().MutatingAdmissionPolicies().List(context.Background(), metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return "apply"
	}
	w.must(err)
	return "apply-v1beta1"
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
