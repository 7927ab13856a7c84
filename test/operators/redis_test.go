//go:build cluster

package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// Keys of redis-operator. digestKey stands for its annotation with what it has applied last.
const (
	skipKey     = "redisreplication.opstreelabs.in/skip-reconcile"
	recreateKey = "redis.opstreelabs.in/recreate-statefulset"
	digestKey   = "redis.opstreelabs.in/applied"
	finalizer   = "redis.opstreelabs.in/finalizer"
)

// redisOperator is played, because the module proxy serves no present version of it. The actor does what v0.26.0 did when it ran by hand
// (docs/owners.md): see redisActor.
var redisOperator = &operator{name: "redis", play: func(ctx context.Context, config *rest.Config, namespace string) error {
	a := redisActor{kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config).Resource(redisReplications).Namespace(namespace),
		namespace}
	return a.reconcile(ctx)
}}

var redisReplications = schema.GroupVersionResource{Group: "redis.redis.opstreelabs.in", Version: "v1test1", Resource: "redisreplications"}

// redisActor reconciles the RedisReplication main of a namespace.
type redisActor struct {
	kube      kubernetes.Interface
	resources dynamic.ResourceInterface
	namespace string
}

// reconcile looks at the resource and its StatefulSet once.
//
//   - A deletion is handled also while the operator is paused: the claims go.
//   - Claims that are smaller than the resource says are made larger. If one is larger, nothing happens to the set.
//   - A set whose templates have another size is deleted with its pods and created again, only if the resource has the annotation.
//   - If the set or the resource has changed, an update gives the set the operator's own labels and those of the resource, and no others.
//     The labels and annotations of the resource go into the pods, too.
func (a redisActor) reconcile(ctx context.Context) error {
	owner, err := a.resources.Get(ctx, "main", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case owner.GetDeletionTimestamp() != nil:
		return a.finalize(ctx)
	case owner.GetAnnotations()[skipKey] == "true":
		return nil
	}
	if !slices.Contains(owner.GetFinalizers(), finalizer) {
		_, err := a.resources.Patch(ctx, "main", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, finalizer),
			metav1.PatchOptions{})
		return err
	}
	wanted, err := redisSet(owner)
	if err != nil {
		return err
	}
	sets := a.kube.AppsV1().StatefulSets(a.namespace)
	set, err := sets.Get(ctx, "main", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := sets.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil || set.DeletionTimestamp != nil {
		return err
	}
	if err := a.growClaims(ctx, sizeOf(wanted)); err != nil {
		return err
	}
	if has := sizeOf(set); owner.GetAnnotations()[recreateKey] == "true" && has.Cmp(sizeOf(wanted)) != 0 {
		background := metav1.DeletePropagationBackground
		return sets.Delete(ctx, "main", metav1.DeleteOptions{PropagationPolicy: &background})
	}
	if set.Annotations[digestKey] == wanted.Annotations[digestKey] && *set.Spec.Replicas == *wanted.Spec.Replicas {
		return nil
	}
	next := set.DeepCopy()
	next.Labels, next.Spec.Replicas, next.Spec.Template = wanted.Labels, wanted.Spec.Replicas, wanted.Spec.Template
	maps.Copy(next.Annotations, wanted.Annotations)
	_, err = sets.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// finalize deletes the claims, and lets the resource go.
func (a redisActor) finalize(ctx context.Context) error {
	err := a.kube.CoreV1().PersistentVolumeClaims(a.namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "app=main"})
	if err != nil {
		return err
	}
	_, err = a.resources.Patch(ctx, "main", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// growClaims makes smaller claims larger. It fails if a claim is larger.
func (a redisActor) growClaims(ctx context.Context, size resource.Quantity) error {
	claims, err := a.kube.CoreV1().PersistentVolumeClaims(a.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=main"})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if has := claim.Spec.Resources.Requests[corev1.ResourceStorage]; has.Cmp(size) == 0 {
			continue
		}
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = size // the API server refuses a smaller size
		if _, err := a.kube.CoreV1().PersistentVolumeClaims(a.namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func sizeOf(set *appsv1.StatefulSet) resource.Quantity {
	return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
}

// redisSet returns the StatefulSet of the resource.
func redisSet(owner *unstructured.Unstructured) (*appsv1.StatefulSet, error) {
	text, _ := json.Marshal(owner.Object)
	var o struct {
		Spec struct {
			ClusterSize      int32
			KubernetesConfig struct{ Image string }
			Storage          struct{ VolumeClaimTemplate corev1.PersistentVolumeClaim }
		}
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	own := map[string]string{"app": "main"}
	labels, annotations := maps.Clone(own), map[string]string{}
	maps.Copy(labels, owner.GetLabels())
	maps.Copy(annotations, owner.GetAnnotations())
	claim := o.Spec.Storage.VolumeClaimTemplate
	claim.Name, claim.Labels = "main", own
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "main", Labels: labels, Annotations: maps.Clone(annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}},
		Spec: appsv1.StatefulSetSpec{Replicas: &o.Spec.ClusterSize, ServiceName: "main", Selector: &metav1.LabelSelector{MatchLabels: own},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(1000))},
					Containers: []corev1.Container{{Name: "redis", Image: o.Spec.KubernetesConfig.Image,
						VolumeMounts: []corev1.VolumeMount{{Name: "main", MountPath: "/data"}}}}}}},
	}
	applied, err := json.Marshal(set.Spec)
	if err != nil {
		return nil, err
	}
	digest := fnv.New32a()
	_, _ = digest.Write(applied)
	set.Annotations[digestKey] = fmt.Sprintf("%x", digest.Sum32())
	return set, nil
}

func isPlayed(k kind) bool { return k.operator.play != nil }

// TestPlayedOperatorRemovesLabels: an update by the operator removes labels that the resource does not have.
func TestPlayedOperatorRemovesLabels(t *testing.T) {
	each(t, isPlayed, func(_ *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		w.PatchSet(k.set, `{"metadata":{"labels":{"tier":"gold"}}}`)
		w.patchResource(k.touch)
		w.Eventually("the operator has removed the label", func() string { return w.set().Labels["tier"] })
		if problem := w.managed(); problem != "" {
			t.Error(problem)
		}
	})
}

// TestPlayedOperatorUndoesShrink is the control for the tests of a shrink: the operator makes the claims larger again as soon as it is no
// longer paused.
func TestPlayedOperatorUndoesShrink(t *testing.T) {
	each(t, isPlayed, func(_ *testing.T, k kind) {
		w, shrink := newManagedWorld(t, k, kit.GrowingClass), method{"shrink by copy", kit.GrowingClass, "512Mi", 1}
		expectPauseHolds(w, shrink)
		w.Annotate(k.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
		w.becomes("the claims have their former size", func() string {
			for _, name := range w.claims() {
				if is := w.Claim(name).Status.Capacity.Storage().String(); is != "1Gi" {
					return fmt.Sprintf("claim %s has %s", name, is)
				}
			}
			return ""
		})
	})
}

// TestPlayedOperatorRecreatesSet: with its annotation, the operator replaces a set whose templates have another size, but not while it is
// paused.
func TestPlayedOperatorRecreatesSet(t *testing.T) {
	each(t, isPlayed, func(_ *testing.T, k kind) {
		w, shrink := newManagedWorld(t, k, kit.GrowingClass), method{"shrink by copy", kit.GrowingClass, "512Mi", 1}
		w.patchResource(`[{"op":"add","path":"/metadata/annotations/redis.opstreelabs.in~1recreate-statefulset","value":"true"}]`)
		w.Eventually("the pods have the annotation", func() string {
			if w.set().Spec.Template.Annotations[recreateKey] == "" {
				return "they have not"
			}
			return w.ready()
		})
		w.restarts = w.watchRestarts()
		expectPauseHolds(w, shrink)
		former := w.set().UID
		w.Annotate(k.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
		w.becomes("the operator has replaced the set", func() string {
			if set := w.set(); set == nil || set.UID == former {
				return "it has not"
			}
			return w.ready()
		})
	})
}
