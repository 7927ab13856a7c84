package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
)

// CreateSet creates the StatefulSet and waits until it is ready.
func (w *World) CreateSet(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	w.T.Helper()
	set.Namespace = w.Namespace
	made, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatalf("creating set: %v", err)
	}
	w.Eventually("set is ready", func() string {
		made = w.Set(set.Name)
		if made.Status.ObservedGeneration < made.Generation || made.Status.ReadyReplicas != *made.Spec.Replicas {
			return fmt.Sprintf("%d of %d replicas are ready", made.Status.ReadyReplicas, *made.Spec.Replicas)
		}
		return ""
	})
	return made
}

// Set reads the StatefulSet. It returns nil if the set does not exist.
func (w *World) Set(name string) *appsv1.StatefulSet {
	w.T.Helper()
	set, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.T.Fatalf("reading set %s: %v", name, err)
	}
	return set
}

// Status reads the record of the StatefulSet's resize. It returns nil if there is none.
func (w *World) Status(name string) *api.Resize {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	status, err := api.LoadResize(set)
	if err != nil {
		w.T.Fatal(err)
	}
	return status
}

// Annotate writes annotations on the StatefulSet as a user would.
func (w *World) Annotate(name string, annotations map[string]string) {
	w.T.Helper()
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	w.patchSet(name, body)
}

// Retry asks for a retry as kubectl drydock retry does: with the id of an operation that waits for one.
func (w *World) Retry(name string) {
	w.T.Helper()
	id := "now"
	for _, record := range operation.Of(w.Set(name)).All() {
		if phase := record.Head().Phase; phase == api.Failed || phase == api.Refused {
			id = record.Head().Operation
		}
	}
	w.Annotate(name, map[string]string{api.RetryAnnotation: id})
}

// GiveUp gives the pods from the ordinal on up, as kubectl drydock cleanup does.
func (w *World) GiveUp(name string, from int) {
	w.T.Helper()
	w.Annotate(name, map[string]string{api.CleanupFromAnnotation: members.OrderFrom(w.Set(name), from)})
}

// Scale sets the replicas as a user or an autoscaler would.
func (w *World) Scale(name string, replicas int) {
	w.T.Helper()
	w.patchSet(name, []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)))
}

// TryScale is Scale for a set that may be missing for a moment.
func (w *World) TryScale(name string, replicas int) {
	w.T.Helper()
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	set, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), name, types.MergePatchType, body,
		metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		w.T.Errorf("scaling set %s: %v", name, err)
	case set.DeletionTimestamp != nil: // it may be gone before a function has read the count
		w.scaledLate = append(w.scaledLate, int32(replicas))
	default:
		w.scaled, w.scaledLate = []int32{int32(replicas)}, nil
	}
}

// PossibleReplicas returns the replica counts that the set may have now. It was created with made replicas, and since then scaled
// only by TryScale.
func (w *World) PossibleReplicas(made int32) []int32 {
	if len(w.scaled) == 0 {
		return append([]int32{made}, w.scaledLate...)
	}
	return append(w.scaled[:1:1], w.scaledLate...)
}

// PatchSet merges a patch into the StatefulSet.
func (w *World) PatchSet(name, body string) {
	w.T.Helper()
	w.patchSet(name, []byte(body))
}

func (w *World) patchSet(name string, body []byte) {
	w.T.Helper()
	if err := w.tryPatchSet(name, body); err != nil {
		w.T.Fatalf("patching set %s: %v", name, err)
	}
}

func (w *World) tryPatchSet(name string, body []byte) error {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// DeleteSet deletes the StatefulSet and waits until it is gone.
func (w *World) DeleteSet(name string, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	err := w.Kube.AppsV1().StatefulSets(w.Namespace).Delete(context.Background(), name,
		metav1.DeleteOptions{PropagationPolicy: &propagation})
	if err != nil {
		w.T.Fatalf("deleting set %s: %v", name, err)
	}
	w.Eventually("set is gone", func() string {
		if w.Set(name) != nil {
			return "it is there"
		}
		return ""
	})
}

// Ago returns a time in the past in the format of the annotations.
func Ago(d time.Duration) string { return idle.FormatTime(time.Now().Add(-d)) }

// Sleep reads the record of the set's latest sleep, or returns nil.
func (w *World) Sleep(name string) *api.Sleep {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	sleep, err := api.LoadSleep(set)
	w.must(err)
	return sleep
}

// UntilSleep ticks until the set's sleep has the phase.
func (w *World) UntilSleep(d *Drive, name string, phase api.Phase) *api.Sleep {
	w.T.Helper()
	var sleep *api.Sleep
	w.Eventually(fmt.Sprintf("the sleep of %s is %s", name, phase), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep = w.Sleep(name); sleep == nil {
			return "there is none"
		}
		if sleep.Phase != phase {
			return fmt.Sprintf("%s %s: %s", sleep.Phase, sleep.Reason, sleep.Message)
		}
		return ""
	})
	return sleep
}

// SendSetEvent sends an activity, wake or sleep event for a set, as any client may, and delivers every event that follows.
func (w *World) SendSetEvent(d *Drive, eventType, set string) error {
	return w.tell(d, eventType, map[string]string{"kind": events.KindStatefulSet, "name": set})
}

// SendGroupEvent sends such an event for a group.
func (w *World) SendGroupEvent(d *Drive, eventType, group string) error {
	return w.tell(d, eventType, map[string]string{"group": group})
}

func (w *World) tell(d *Drive, eventType string, extensions map[string]string) error {
	e := event.New()
	e.SetID(fmt.Sprint(time.Now().UnixNano()))
	e.SetSource("kit")
	e.SetType(eventType)
	e.SetTime(time.Now())
	e.SetExtension("namespace", w.Namespace)
	for key, value := range extensions {
		e.SetExtension(key, value)
	}
	if err := d.Send(context.Background(), e); err != nil {
		return err
	}
	return d.Drain(context.Background())
}

// TryAnnotate annotates a set. The set may be missing for a moment.
func (w *World) TryAnnotate(name, key, value string) {
	w.T.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := w.tryPatchSet(name, body); err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("annotating set %s: %v", name, err)
	}
}

// Scalers are the Scalers of the namespace.
func (w *World) Scalers() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(w.Config).Resource(v1alpha1.GroupVersion.WithResource("scalers")).Namespace(w.Namespace)
}

// CreateScaler creates a Scaler.
func (w *World) CreateScaler(name string, spec v1alpha1.ScalerSpec) error {
	scaler := &v1alpha1.Scaler{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Scaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scaler)
	if err != nil {
		return err
	}
	delete(content, "status")
	_, err = w.Scalers().Create(context.Background(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	return err
}

// Scaler reads a Scaler. It returns nil if the Scaler does not exist.
func (w *World) Scaler(name string) *v1alpha1.Scaler {
	w.T.Helper()
	object, err := w.Scalers().Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.T.Fatal(err)
	}
	scaler := &v1alpha1.Scaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, scaler); err != nil {
		w.T.Fatal(err)
	}
	return scaler
}
