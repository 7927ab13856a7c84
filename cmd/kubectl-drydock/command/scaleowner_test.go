package command

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit/build"
)

// TestScaleWritesTheScalerOfTheRecord: a second Scaler of the set has a name that comes first. It has the condition TargetTaken
// and scales nothing, so the command must write to the Scaler in the record of the set.
func TestScaleWritesTheScalerOfTheRecord(t *testing.T) {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now)},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 3, Target: 3}
	c := newCluster(t, build.Set("web", build.Annotation(api.ScaleAnnotation, record.Encode())))
	behind, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	scaler := func(name string, wants int32) v1alpha1.Scaler {
		return v1alpha1.Scaler{TypeMeta: metav1.TypeMeta{APIVersion: "drydock.dev/v1alpha1", Kind: "Scaler"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To(wants)}}
	}
	second, first := scaler("a-second", 7), scaler("pilot", 3)
	second.UID, first.UID = "uid-second", "uid-pilot"
	patched := []string{}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.Transport = c.Client().Transport
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/shop/scalers"):
			_ = json.NewEncoder(w).Encode(v1alpha1.ScalerList{TypeMeta: metav1.TypeMeta{APIVersion: "drydock.dev/v1alpha1", Kind: "ScalerList"},
				Items: []v1alpha1.Scaler{second, first}}) // by name, as the API server lists them
		case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/scalers/"):
			patched = append(patched, r.URL.Path)
			_, _ = io.WriteString(w, `{"apiVersion":"autoscaling/v1","kind":"Scale"}`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	out, err := c.runAt(t, build.Now, "scale", "sts/web", "5")
	if err != nil || len(patched) != 1 || !strings.HasSuffix(patched[0], "/scalers/pilot/scale") {
		t.Errorf("wrote %q, and said %q, %v", patched, out, err)
	}
}

// TestWaitForScalingEndsIfNothingScales: the Scaler of the set cannot scale: its hook is invalid, or it is paused. Nothing
// is in progress, so --wait would wait forever. It must end with an error, or at least show the reason.
func TestWaitForScalingEndsIfNothingScales(t *testing.T) {
	for name, conditions := range map[string][]metav1.Condition{
		"an invalid hook": {
			{Type: "Healthy", Status: metav1.ConditionFalse, Reason: "HookInvalid", Message: "hooks.pre.job.template: unknown field"},
			{Type: "Failed", Status: metav1.ConditionFalse, Reason: "HookInvalid"},
			{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "HookInvalid"}},
		"a pause": {
			{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "ScalerReady"},
			{Type: "Failed", Status: metav1.ConditionFalse, Reason: "ScalerReady"},
			{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "SetPaused",
				Message: "paused. Set spec.paused to false to start 1 members again"}},
	} {
		s := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		s.Status.ObservedGeneration, s.Status.Replicas, s.Status.Conditions = 2, 3, conditions
		if name == "a pause" {
			s.Spec.Paused, s.Status.Replicas = true, 0
		}
		reason := conditions[2].Reason
		if ended, err := hasScaled(s, 1); !ended && err == nil && !strings.Contains(scalerLine(s), reason) {
			t.Errorf("%s: the command waits for ever, and shows only %q", name, scalerLine(s))
		}
	}
}
