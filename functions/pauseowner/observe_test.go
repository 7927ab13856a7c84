package pauseowner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestAutoscalerOfAnotherGroupIsNoScaler: OpenKruise has a kind StatefulSet, too (apps.kruise.io). An autoscaler of such a set with
// the same name does not scale the StatefulSet of Kubernetes, so it must neither refuse the sleep nor be paused for it.
func TestAutoscalerOfAnotherGroupIsNoScaler(t *testing.T) {
	planned := build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute),
		func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	hpa := hpaFor("StatefulSet/web", ptr.To[int32](0))
	hpa.Spec.ScaleTargetRef.APIVersion = "apps.kruise.io/v1beta1"
	in := observeSet(t, build.Lists{"statefulsets": objectList{build.Set("web", planned)},
		"horizontalpodautoscalers": []metav1.Object{hpa}})
	if len(in.Owners) != 0 {
		t.Errorf("%s %s: %s", in.Owners[0].Ref.Kind, in.Owners[0].Ref.Name, in.Owners[0].Problem)
	}
}
