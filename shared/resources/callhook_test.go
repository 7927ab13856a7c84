package resources_test

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func callSettings() api.Settings {
	settings := build.Settings()
	settings.AllowTags = true
	return settings
}

// TestCallJob: the pod meets the restricted Pod Security level and has no token and no capability.
func TestCallJob(t *testing.T) {
	template, err := resources.CallTemplate(callSettings(), "the "+
		"hook", v1alpha1.HookHTTP{URL: "https://drain.shop.svc:8443/hook?x=$(DRYDOCK_SET)", Timeout: "3s"})
	if err != nil {
		t.Fatal(err)
	}
	set := workload()
	set.Spec.Template.Spec.ServiceAccountName = "db"
	record := &api.Scale{Header: api.Header{Operation: build.ID, Kind: api.KindScale, Set: api.SetRef{Name: set.Name, UID: set.UID}},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 3, Target: 1}
	compareYAML(t, "call-hook", resources.MakeScaleHook(set, record, "pre", template, time.Minute))
}

func TestCallHasTimeout(t *testing.T) {
	for timeout, want := range map[v1alpha1.Deadline]string{"": "10s", "0s": "10s", "soon": "10s", "1m30s": "1m30s"} {
		template, err := resources.CallTemplate(callSettings(), "the hook", v1alpha1.HookHTTP{URL: "http://drain", Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		if got := template.Spec.Containers[0].Args[2]; got != "--timeout="+want {
			t.Errorf("%q: %s", timeout, got)
		}
	}
}

func TestInvalidURLIsReportedWithItsPlace(t *testing.T) {
	_, err := resources.CallTemplate(callSettings(), "hooks.pre.http of Scaler web", v1alpha1.HookHTTP{URL: "http:///"})
	if err == nil {
		t.Fatal("the URL is accepted")
	}
	golden.Equal(t, err.Error()+"\n")
}

func TestCallNeedsImage(t *testing.T) {
	settings := callSettings()
	settings.Image = ""
	if _, err := resources.CallTemplate(settings, "the hook", v1alpha1.HookHTTP{URL: "http://drain"}); err == nil ||
		!strings.Contains(err.Error(), "Set DRYDOCK_IMAGE") {
		t.Error(err)
	}
}
