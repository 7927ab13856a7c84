package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestGrowAndCleanupAndScale: what each prints and writes.
func TestGrowAndCleanupAndScale(t *testing.T) {
	data := build.Template("data", "10Gi", "standard")
	template := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	cleanup := func(ordinals ...api.OrdinalStatus) build.Option {
		record := &api.Cleanup{Header: build.Operation(api.Moving).Header, Ordinals: ordinals}
		record.Kind, record.Phase, record.Request = api.KindCleanup, "Cleaning", "0123456789ab"
		return build.Annotation(api.CleanupAnnotation, record.Encode())
	}
	stopped := build.Edit(func(set *appsv1.StatefulSet) {
		l := &api.Ledger{Set: api.SetRef{Name: set.Name, UID: set.UID}, Count: 3, Generation: set.Generation}
		build.Annotation(api.LedgerAnnotation, l.Encode())(set)
	})
	failed := api.OrdinalStatus{Ordinal: 2, Tries: 1, NextTry: operation.Moment(build.Now.Add(time.Minute)), Reason: api.CleanupTried,
		Message: "the pod ended\nwith 1"}
	file := golden.Open(t)
	for _, row := range []struct {
		situation, args string
		options         []build.Option
	}{
		{"rules for growth", "grow sts/web data=below:15%,max:500Gi", []build.Option{data}},
		{"the same rules again", "grow sts/web data=max:500Gi", []build.Option{data, build.Annotation(api.GrowAnnotation, "data=max:500Gi")}},
		{"rules for another template", "grow sts/web logs=max:5Gi", []build.Option{data}},
		{"rules without a limit", "grow sts/web data=below:15%", []build.Option{data}},
		{"no growth", "grow sts/web --off", []build.Option{data}},
		{"the present rules", "grow sts/web", []build.Option{build.Annotation(api.GrowAnnotation, "data=max:500Gi")}},
		{"no rules", "grow sts/web", nil},
		{"unreadable rules", "grow sts/web", []build.Option{build.Annotation(api.GrowAnnotation, "data")}},
		{"no cleanup is wanted", "cleanup sts/web", nil},
		{"no cleanup yet", "cleanup sts/web", []build.Option{data, template}},
		{"a cleanup pod failed", "cleanup sts/web", []build.Option{template, cleanup(failed)}},
		{"an unreadable record", "cleanup sts/web", []build.Option{template, build.Annotation(api.CleanupAnnotation, "{")}},
		{"pods that are expected back", "cleanup sts/web", []build.Option{data, template, cleanup(), stopped}},
		{"pods are given up", "cleanup sts/web --from 1 --yes", []build.Option{data, template, stopped}},
		{"a pod that runs is given up", "cleanup sts/web --from 0 --yes", []build.Option{data, template, stopped}},
		{"pods without a template are given up", "cleanup sts/web --from 1 --yes", []build.Option{data}},
		{"a Scaler", "scale sts/web 1", nil},
		{"no count", "scale sts/web many", nil},
	} {
		c := newCluster(t, build.Set("web", row.options...))
		out, err := c.runAt(t, build.Now, strings.Fields(row.args)...)
		file.Entry(t, row.situation, fmt.Sprintf("kubectl drydock %s\n%serror: %v\nwrites: %s", row.args, out, err, strings.Join(c.wrote, "\n")))
	}
	none := newCluster(t, build.Set("db"))
	if _, err := none.run(t, "scale", "sts/db", "1"); err == nil || !strings.Contains(err.Error(), "kubectl scale -n shop sts db") {
		t.Errorf("a set without a Scaler: %v", err)
	}
}

// TestWaitForScalingSurvivesAnAPIServerThatDoesNotAnswer: a script must not read an interruption as a failed scaling.
func TestWaitForScalingSurvivesAnAPIServerThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	config := genericclioptions.NewConfigFlags(false)
	config.APIServer, config.Insecure, config.Namespace = &c.URL, ptr.To(true), ptr.To("shop")
	silent := genericiooptions.IOStreams{Out: &bytes.Buffer{}}
	o := &scaleRequest{tool: &tool{config: config, IOStreams: silent}, timeout: 300 * time.Millisecond}
	s, err := o.open("sts/web")
	if err != nil {
		t.Fatal(err)
	}
	s.refresh = time.Millisecond
	time.AfterFunc(20*time.Millisecond, func() { c.scalersFail.Store(true) })
	if err := o.follow(t.Context(), s, 1); ExitCode(err) != ExitTimeout {
		t.Errorf("ends with %v", err)
	}
}

func TestScalingHasEndedWithTheCountOrAFailure(t *testing.T) {
	condition := func(name string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "HookFailed", Message: "the hook failed"}
	}
	for _, row := range []struct {
		situation     string
		observed      int64
		replicas      int32
		conditions    []metav1.Condition
		requests      int32
		ended, failed bool
	}{
		{"the status is old", 1, 3, nil, 1, false, false},
		{"it runs", 2, 3, []metav1.Condition{condition("Progressing", metav1.ConditionTrue)}, 1, false, false},
		{"it has ended", 2, 1, []metav1.Condition{condition("Progressing", metav1.ConditionFalse)}, 1, true, false},
		{"it has failed", 2, 3, []metav1.Condition{condition("Failed", metav1.ConditionTrue)}, 1, true, true},
		{"the fixed count is restored", 2, 3, []metav1.Condition{condition("Progressing", metav1.ConditionFalse)}, 3, true, true},
	} {
		scaler := &v1alpha1.Scaler{Spec: v1alpha1.ScalerSpec{Replicas: &row.requests}}
		scaler.Generation, scaler.Status.ObservedGeneration = 2, row.observed
		scaler.Status.Replicas, scaler.Status.Conditions = row.replicas, row.conditions
		ended, err := hasScaled(scaler, 1)
		if ended != row.ended || (err != nil) != row.failed {
			t.Errorf("%s: ended %v, %v", row.situation, ended, err)
		}
	}
}

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
