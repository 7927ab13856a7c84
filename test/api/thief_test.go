//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit"
)

// dry requests a dry run. The API server authorizes and admits it like a real write.
var dry = []string{metav1.DryRunAll}

// loot is the cluster that the thieves find.
type loot struct {
	w *kit.World
	// web has opted in and has an operation. plain has not opted in. Both run. Their volumes have the policies Retain
	// and Delete.
	web, plain   *appsv1.StatefulSet
	copy, volume string // volumes: the copy of an operation, and another volume with the reclaim policy Retain
	// mover is the pod of a waiting mover.
	mover string
}

// thief is a client with only the token of an account.
type thief struct {
	loot
	kube   kubernetes.Interface
	config *rest.Config
	ctx    context.Context
}

// stealToken creates a token of the account.
func stealToken(t *testing.T, l loot, account string) *thief {
	t.Helper()
	token, err := l.w.Kube.CoreV1().ServiceAccounts(api.HomeNamespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("taking the token of %s: %v", account, err)
	}
	config := rest.AnonymousClientConfig(l.w.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return &thief{loot: l, config: config, kube: kubernetes.NewForConfigOrDie(config), ctx: t.Context()}
}

// may reports whether the API server accepts the write. Any error except a denial fails the test.
func (s *thief) may(t *testing.T, what string, err error) bool {
	t.Helper()
	if err != nil && !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

func (s *thief) patchSet(name, body string) error {
	_, err := s.kube.AppsV1().StatefulSets(s.w.Namespace).Patch(s.ctx, name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: dry})
	return err
}

func (s *thief) annotateSet(name, key string) error {
	return s.patchSet(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"stolen"}}}`, key))
}

// raiseFloors raises floors like grow-volumes.
func (s *thief) raiseFloors(floors string) error {
	return s.patchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:"stolen"}}}`, api.GrowToAnnotation, floors,
		api.GrowthAnnotation))
}

// createToken creates a token of Drydock's account in a dry run.
func (s *thief) createToken(account string) error {
	_, err := s.kube.CoreV1().ServiceAccounts(api.HomeNamespace).CreateToken(s.ctx, account, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) deleteSet(name string, propagation metav1.DeletionPropagation) error {
	return s.kube.AppsV1().StatefulSets(s.w.Namespace).Delete(s.ctx, name,
		metav1.DeleteOptions{DryRun: dry, PropagationPolicy: &propagation})
}

func (s *thief) createSet(change func(*appsv1.StatefulSet)) error {
	set := kit.WorldSet("made", 0, "64Mi", "data")
	set.Annotations[api.StatusAnnotation] = "{}"
	change(set)
	_, err := s.kube.AppsV1().StatefulSets(s.w.Namespace).Create(s.ctx, set, metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) patchVolume(name, body string) error {
	_, err := s.kube.CoreV1().PersistentVolumes().Patch(s.ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
	return err
}

func (s *thief) patchClaim(name, body string) error {
	_, err := s.kube.CoreV1().PersistentVolumeClaims(s.w.Namespace).Patch(s.ctx, name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: dry})
	return err
}

func (s *thief) deleteClaim(name string) error {
	return s.kube.CoreV1().PersistentVolumeClaims(s.w.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{DryRun: dry})
}

func (s *thief) createClaim(change func(*corev1.PersistentVolumeClaim)) error {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: api.TargetName(operation, "data-web-0", 1),
			Labels: map[string]string{api.OperationLabel: operation}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To(kit.Class),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}}},
	}
	change(claim)
	_, err := s.kube.CoreV1().PersistentVolumeClaims(s.w.Namespace).Create(s.ctx, claim, metav1.CreateOptions{DryRun: dry})
	return err
}

// createPod creates cleanup-pod's pod with a change.
func (s *thief) createPod(namespace string, change func(*corev1.Pod)) error {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
	pod := resources.MakeCleanupPod(s.web, template, operation, 7, nil)
	pod.Namespace = namespace
	change(pod)
	_, err := s.kube.CoreV1().Pods(namespace).Create(s.ctx, pod, metav1.CreateOptions{DryRun: dry})
	return err
}

// createHook creates restore's Job before a member stops, with a change.
func (s *thief) createHook(change func(*batchv1.Job)) error {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
	link := api.Link{Operation: operation, Role: api.RoleHook, Namespace: s.w.Namespace, Set: api.SetRef{Name: "web", UID: s.web.UID},
		Member: ptr.To(0)}
	job := resources.MakeHook(s.web, resources.BeforeMember, template, link, 1, kit.Settings())
	change(job)
	_, err := s.kube.BatchV1().Jobs(s.w.Namespace).Create(s.ctx, job, metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) deletePod(name string) error {
	return s.kube.CoreV1().Pods(s.w.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{DryRun: dry})
}

func (s *thief) createRevision(name string, annotations map[string]string) error {
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{api.OperationLabel: operation}, Annotations: annotations},
		Data: runtime.RawExtension{Raw: []byte(`{}`)}}
	_, err := s.kube.AppsV1().ControllerRevisions(s.w.Namespace).Create(s.ctx, revision, metav1.CreateOptions{DryRun: dry})
	return err
}

// operation is the id of an invented operation.
const operation = "0123456789ab"

// linkTo returns a link with the role.
func linkTo(l loot, role api.Role) string {
	return api.Link{Operation: operation, Role: role, Namespace: l.w.Namespace, Set: api.SetRef{Name: "web", UID: l.web.UID},
		Claim: "data-web-0"}.Encode()
}

// layLoot creates the objects that the thieves are after.
func layLoot(t *testing.T) loot {
	t.Helper()
	l := loot{w: kit.NewWorld(t)}
	l.web = l.w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	plain := kit.WorldSet("plain", 2, "64Mi", "data")
	plain.Labels, plain.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = nil, ptr.To(kit.GrowingClass)
	l.plain = l.w.CreateSet(plain)
	zero := kit.WorldSet("zero", 0, "64Mi", "data")
	zero.Labels = nil
	l.w.CreateSet(zero)
	l.w.Annotate("web", map[string]string{api.StatusAnnotation: "{}"})
	l.layRecords()
	l.layHeld(t)
	l.layMover(t)
	l.layStrange(t)
	l.layAutoscalers(t)
	ctx, core := t.Context(), l.w.Kube.CoreV1()
	l.w.PatchClaim("data-plain-1", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.OperationLabel, operation))
	l.volume, l.copy = l.w.Claim("data-plain-0").Spec.VolumeName, l.w.Claim("data-web-0").Spec.VolumeName
	kept, _ := json.Marshal(map[string]any{"spec": map[string]any{"persistentVolumeReclaimPolicy": "Retain"}})
	if _, err := core.PersistentVolumes().Patch(ctx, l.volume, types.MergePatchType, kept, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ServiceAccounts(l.w.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "loose"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
	if _, err := core.Pods(l.w.Namespace).Create(ctx, loose, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"linked": func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{api.OperationLabel: operation} },
		"other":  func(*corev1.PersistentVolumeClaim) {},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *l.w.Claim("data-plain-0").Spec.DeepCopy()}
		claim.Spec.VolumeName = "of-" + name
		change(claim)
		if _, err := core.PersistentVolumeClaims(l.w.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// createRealPod is createPod without a dry run, because in a dry run the function may try any pod.
func (s *thief) createRealPod(change func(*corev1.Pod)) error {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
	pod := resources.MakeCleanupPod(s.web, template, operation, 7, nil)
	change(pod)
	return s.createReal(pod)
}

// createReal creates the pod. An existing pod counts as accepted, because the API server finds that last.
func (s *thief) createReal(pod *corev1.Pod) error {
	_, err := s.kube.CoreV1().Pods(s.w.Namespace).Create(s.ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (s *thief) readLog(pod string) error {
	err := s.kube.CoreV1().Pods(s.w.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).Do(s.ctx).Error()
	if err != nil && !apierrors.IsForbidden(err) {
		return nil // the API server has allowed it; there is no node to ask
	}
	return err
}

func (s *thief) exec(pod string) error {
	err := s.kube.CoreV1().RESTClient().Post().Namespace(s.w.Namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"sh"}, Stdout: true}, scheme.ParameterCodec).Do(s.ctx).Error()
	if err != nil && !apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// layHeld creates a set with one held member whose two claims are being deleted. Only one claim belongs to an
// operation.
func (l *loot) layHeld(t *testing.T) {
	t.Helper()
	l.w.CreateSet(kit.WorldSet("part", 2, "64Mi", "data"))
	pods, claims := l.w.Kube.CoreV1().Pods(l.w.Namespace), l.w.Kube.CoreV1().PersistentVolumeClaims(l.w.Namespace)
	if _, err := pods.Patch(t.Context(), "part-0", types.MergePatchType, []byte(holdPatch(*l, api.RoleHeld)),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.w.PatchClaim("data-part-0", `{"metadata":{"labels":{"drydock.dev/operation":"`+operation+`"}}}`)
	for _, name := range []string{"data-part-0", "data-part-1"} {
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// layMover runs a mover that does not end.
func (l *loot) layMover(t *testing.T) {
	t.Helper()
	l.w.Node.Set(func(n *kit.Node) { n.Hold = true })
	mover := (&thief{loot: *l}).moverOf("data")
	mover.Attempt = 1 // thieves create the next one
	job := resources.MakeMover(mover)
	job.Spec.ActiveDeadlineSeconds = nil
	if _, err := l.w.Kube.BatchV1().Jobs(l.w.Namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	others := job.DeepCopy()
	others.Name, others.Labels, others.Spec.Suspend = "others", map[string]string{"app": "x"}, ptr.To(true)
	if _, err := l.w.Kube.BatchV1().Jobs(l.w.Namespace).Create(t.Context(), others, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.w.Eventually("the mover has a pod", func() string {
		pods, err := l.w.Kube.CoreV1().Pods(l.w.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
		if err != nil || len(pods.Items) != 1 {
			return fmt.Sprintf("%v, %v", pods, err)
		}
		l.mover = pods.Items[0].Name
		return ""
	})
}

// strange are pods whose controllers only resemble a StatefulSet or the Job of a mover.
var strange = map[string]metav1.OwnerReference{
	"strange-0": {APIVersion: "apps.example.com/v1", Kind: "StatefulSet", Name: "strange"},
	"strange-1": {APIVersion: "apps/v1", Kind: "Other", Name: "strange"},
	"strange-2": {APIVersion: "batch.example.com/v1", Kind: "Job", Name: api.MoverName(operation, 0, 1)},
	"strange-3": {APIVersion: "batch/v1", Kind: "Other", Name: api.MoverName(operation, 0, 1)},
	"strange-4": {APIVersion: "batch.example.com/v1", Kind: "Other", Name: "drydock"},
}

func (l *loot) layStrange(t *testing.T) {
	t.Helper()
	for name, owner := range strange {
		owner.UID, owner.Controller = types.UID(name), ptr.To(true)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.OperationLabel: operation},
			OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
		if _, err := l.w.Kube.CoreV1().Pods(l.w.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// powerful returns a security context with the capability.
func powerful(capability corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{capability}}}
}

func privileged() *corev1.SecurityContext {
	return &corev1.SecurityContext{Privileged: ptr.To(true)}
}
