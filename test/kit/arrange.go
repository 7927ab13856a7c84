package kit

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	policyapply "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/statefulset"
)

// PatchClaim merges a patch into a claim.
func (w *World) PatchClaim(name, body string) {
	w.T.Helper()
	_, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(context.Background(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{})
	w.must(err)
}

// DeleteClaim deletes a claim as a user would.
func (w *World) DeleteClaim(name string) {
	w.T.Helper()
	w.must(w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// CreatePodOn creates a pod that uses the claim and belongs to no set.
func (w *World) CreatePodOn(name, claim string) {
	w.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "sh", Image: "dev.local/busybox:1"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	w.must(err)
}

// CreateQuota sets the namespace's quota for a resource and waits until it is in force.
func (w *World) CreateQuota(name corev1.ResourceName, hard string) {
	w.T.Helper()
	ctx, limit := context.Background(), resource.MustParse(hard)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: limit}}}
	_, err := w.Kube.CoreV1().ResourceQuotas(w.Namespace).Create(ctx, quota, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"spec":{"hard":{%q:%q}}}`, name, hard)
		_, err = w.Kube.CoreV1().ResourceQuotas(w.Namespace).Patch(ctx, "quota", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	w.must(err)
	w.Eventually("the quota is in force", func() string {
		now, err := w.Kube.CoreV1().ResourceQuotas(w.Namespace).Get(ctx, "quota", metav1.GetOptions{})
		w.must(err)
		if is := now.Status.Hard[name]; is.Cmp(limit) != 0 || now.Status.Used == nil {
			return "it is not"
		}
		return ""
	})
}

// CreateLimit limits the size of claims.
func (w *World) CreateLimit(largest string) {
	w.T.Helper()
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(largest)}}}}}
	_, err := w.Kube.CoreV1().LimitRanges(w.Namespace).Create(context.Background(), limits, metav1.CreateOptions{})
	w.must(err)
}

// ClaimVersions returns every claim and volume of the world with its resourceVersion.
func (w *World) ClaimVersions() string {
	w.T.Helper()
	var lines []string
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	for _, c := range claims.Items {
		lines = append(lines, c.Name+"@"+c.ResourceVersion)
	}
	for _, v := range w.Volumes() {
		lines = append(lines, v.Name+"@"+v.ResourceVersion)
	}
	return strings.Join(lines, " ")
}

// AddController creates a ConfigMap and makes it the controller of the StatefulSet.
func (w *World) AddController(set string) {
	w.T.Helper()
	owner, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, metav1.CreateOptions{})
	w.must(err)
	w.patchSet(set, []byte(fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"operator","uid":%q,"controller":true}]}}`,
		owner.UID)))
}

// LabelPod labels a pod.
func (w *World) LabelPod(name, key, value string) {
	w.T.Helper()
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), name, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{})
	w.must(err)
}

// ForceDeletePod deletes a pod like `kubectl delete --force`. The pod may be missing.
func (w *World) ForceDeletePod(name string) {
	w.T.Helper()
	err := w.Kube.CoreV1().Pods(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("deleting pod %s: %v", name, err)
	}
}

// ReleasePod removes every finalizer of a pod. The pod may be missing.
func (w *World) ReleasePod(name string) {
	w.T.Helper()
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), name, types.MergePatchType, release, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("releasing pod %s: %v", name, err)
	}
}

// TryDeleteClaim deletes a claim as a user would. The claim may be missing.
func (w *World) TryDeleteClaim(name string) {
	w.T.Helper()
	err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("deleting claim %s: %v", name, err)
	}
}

// HeldPods returns the names of the held pods.
func (w *World) HeldPods() []string {
	w.T.Helper()
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	var held []string
	for i := range pods.Items {
		if statefulset.Held(&pods.Items[i]) {
			held = append(held, pods.Items[i].Name)
		}
	}
	return held
}

// PodRuns reports whether the pod has started and is not terminating.
func (w *World) PodRuns(name string) bool {
	w.T.Helper()
	pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	w.must(err)
	return pod.DeletionTimestamp == nil && statefulset.Started(pod)
}

// CreateBudget creates or changes a PodDisruptionBudget with the set's maximum of unavailable pods, and waits until it is
// in force.
func (w *World) CreateBudget(set string, most int) {
	w.T.Helper()
	ctx, budgets := context.Background(), w.Kube.PolicyV1().PodDisruptionBudgets(w.Namespace)
	spec := policyapply.PodDisruptionBudgetSpec().
		WithMaxUnavailable(intstr.FromInt(most)).
		WithSelector(metaapply.LabelSelector().WithMatchLabels(map[string]string{"app": set}))
	// An update could conflict with the disruption controller, which writes the status at any moment.
	made, err := budgets.Apply(ctx, policyapply.PodDisruptionBudget(set, w.Namespace).WithSpec(spec),
		metav1.ApplyOptions{FieldManager: "user", Force: true})
	w.must(err)
	w.Eventually("the budget is in force", func() string {
		now, err := budgets.Get(ctx, set, metav1.GetOptions{})
		w.must(err)
		if now.Status.ObservedGeneration < made.Generation {
			return "it is not"
		}
		return ""
	})
}

// Available reports whether the pod is ready and not terminating.
func Available(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && statefulset.PodReady(pod)
}

// UnavailablePods returns the names of the missing, unready and terminating pods among the set's first replicas.
func (w *World) UnavailablePods(set string, replicas int) []string {
	w.T.Helper()
	var away []string
	for ordinal := range replicas {
		name := fmt.Sprintf("%s-%d", set, ordinal)
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.T.Fatalf("reading pod %s: %v", name, err)
		}
		if err != nil || !Available(pod) {
			away = append(away, name)
		}
	}
	return away
}

// Attributes and OtherAttributes are the VolumeAttributesClasses of a World.
const (
	Attributes      = "world-gold"
	OtherAttributes = "world-silver"
)

// Class, OtherClass and GrowingClass are the StorageClasses of a World. GrowingClass allows volume expansion.
const (
	Class        = "world"
	OtherClass   = "world-2"
	GrowingClass = "world-growing"
)

func (w *World) createClasses() {
	w.T.Helper()
	for _, name := range []string{Class, OtherClass, GrowingClass} {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		_, err := w.Kube.StorageV1().StorageClasses().Create(context.Background(),
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
				Provisioner: provisioner, VolumeBindingMode: &mode, AllowVolumeExpansion: ptr.To(
					name == GrowingClass)}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating class %s: %v", name, err)
		}
	}
	for _, name := range []string{Attributes, OtherAttributes} {
		_, err := w.Kube.StorageV1().VolumeAttributesClasses().Create(context.Background(), &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: provisioner, Parameters: map[string]string{
				"name": name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating VolumeAttributesClass %s: %v", name, err)
		}
	}
}

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
