//go:build cluster

package operators

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// scaledObject is no kind of the table, because KEDA creates no StatefulSet: it scales one.
var scaledObject = kind{name: "ScaledObject", operator: keda, set: "web", replicas: 3, hasRow: true,
	resource: schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}}

// scaleTarget is what a ScaledObject scales.
type scaleTarget struct {
	name, ref string
	// viaScaler: the target is the Scaler of the set.
	viaScaler bool
}

var scaleTargets = []scaleTarget{
	{name: "StatefulSet", ref: "{apiVersion: apps/v1, kind: StatefulSet, name: web}"},
	{name: "Scaler", ref: "{apiVersion: drydock.dev/v1alpha1, kind: Scaler, name: pilot}", viaScaler: true},
}

// eachScaleTarget runs the test with KEDA, for each kind of target. The target has three replicas, more than KEDA's minimum.
func eachScaleTarget(t *testing.T, test func(*testing.T, *world, scaleTarget)) {
	t.Helper()
	t.Parallel()
	t.Run(keda.name, func(t *testing.T) {
		t.Parallel()
		for _, target := range scaleTargets {
			t.Run(target.name, func(t *testing.T) {
				t.Parallel()
				test(t, newScaledWorld(t, target), target)
			})
		}
	})
}

func newScaledWorld(t *testing.T, target scaleTarget) *world {
	t.Helper()
	w := &world{World: kit.NewWorld(t), t: t, kind: scaledObject, row: rowOf(t, scaledObject)}
	keda.install(w)
	w.LabelNamespace(api.PauseOwnersLabel, api.AllowValue)
	w.GrantPause(w.row.Operator)
	w.CreateSet(kit.WorldSet(w.kind.set, w.kind.replicas, "64Mi", "data"))
	if target.viaScaler {
		w.must(w.CreateScaler("pilot", v1alpha1.ScalerSpec{Target: w.kind.set, Replicas: new(w.kind.replicas)}))
	}
	w.drive = w.Drive(nil)
	w.operator = keda.run(t, w.Namespace, w.Config)
	text, err := os.ReadFile("testdata/ScaledObject.yaml")
	w.must(err)
	object := &unstructured.Unstructured{}
	w.must(utilyaml.Unmarshal(bytes.Replace(text, []byte("TARGET"), []byte(target.ref), 1), &object.Object))
	w.Eventually("the ScaledObject is created", func() string {
		_, err := w.resources().Create(context.Background(), object, metav1.CreateOptions{})
		return textOf(err)
	})
	w.t.Cleanup(w.removeResource)
	w.becomes("KEDA scales the set", func() string { return w.autoscaler() + w.ready() })
	return w
}

// autoscaler returns an empty text if KEDA has an autoscaler for its ScaledObject.
func (w *world) autoscaler() string {
	w.t.Helper()
	_, err := w.Kube.AutoscalingV2().HorizontalPodAutoscalers(w.Namespace).Get(context.Background(), "keda-hpa-main", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return textOf(err)
}

// TestKEDAScalesFromZero is the control for the tests of a sleep: without a pause, KEDA gives a target at zero its minimum.
func TestKEDAScalesFromZero(t *testing.T) {
	eachScaleTarget(t, func(_ *testing.T, w *world, target scaleTarget) {
		if target.viaScaler {
			_, err := w.Scalers().Patch(context.Background(), "pilot", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`),
				metav1.PatchOptions{})
			w.must(err)
		} else {
			w.Scale(w.kind.set, 0)
		}
		w.becomes("KEDA has scaled the target to its minimum", func() string {
			if is := *w.set().Spec.Replicas; is != 2 {
				return fmt.Sprintf("%d replicas", is)
			}
			return ""
		})
	})
}

// TestKEDASleep: KEDA does not wake a sleeping set, and the set gets its exact count back.
// Invariants: I4, I5.
func TestKEDASleep(t *testing.T) {
	eachScaleTarget(t, func(_ *testing.T, w *world, _ scaleTarget) {
		want := w.content()
		w.sleep()
		w.operator.restart()
		w.stays("the set sleeps", held, w.asleep)
		w.wake()
		w.becomes("the set and the ScaledObject are as before, and KEDA scales the set", func() string {
			return w.left(want) + w.autoscaler()
		})
		w.stays("the set has its count", held, w.ready)
	})
}

// TestKEDASleepAgain: a user puts the set to sleep again while it wakes up. KEDA has deleted its autoscaler for the first sleep, and may
// not have it back. The second sleep holds the ScaledObject nevertheless.
// Invariants: I4, I5.
func TestKEDASleepAgain(t *testing.T) {
	eachScaleTarget(t, func(_ *testing.T, w *world, _ scaleTarget) {
		want := w.content()
		w.sleep()
		first, again := w.Sleep(w.kind.set).Operation, false
		w.drive.OnEvent = func(event.Event) {
			if sleep := w.Sleep(w.kind.set); !again && sleep.Phase == api.Waking {
				w.Annotate(w.kind.set, map[string]string{api.PausedAnnotation: "true"})
				again = true
			}
		}
		w.PatchSet(w.kind.set, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.PausedAnnotation))
		w.becomes("the set sleeps again", func() string {
			if sleep := w.Sleep(w.kind.set); sleep.Operation == first || sleep.Phase != api.Asleep {
				return string(sleep.Phase)
			}
			return ""
		})
		w.stays("the set sleeps", held, w.asleep)
		w.wake()
		w.becomes("the set and the ScaledObject are as before", func() string { return w.left(want) })
	})
}
