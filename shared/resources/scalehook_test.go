package resources_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// scaleHook is a hook of a scaling of workload.
func scaleHook(t *testing.T, hook string, previous, target int32, timeout time.Duration, options ...build.Option) *batchv1.Job {
	t.Helper()
	set := build.With(workload(), options...)
	template, err := resources.ParseScaleHook(set, "the hook", switchover)
	if err != nil {
		t.Fatal(err)
	}
	record := &api.Scale{Header: api.Header{Operation: build.ID, Kind: api.KindScale, Set: api.SetRef{Name: set.Name, UID: set.UID}},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: previous, Target: target}
	return resources.MakeScaleHook(set, record, hook, template, timeout)
}

func startsAt(first int32) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first} })
}

func TestScaleHookJob(t *testing.T) {
	compare(t, "scale-hook", scaleHook(t, "pre", 5, 3, 10*time.Minute))
}

func TestScaleHookIsToldWhatIsScaled(t *testing.T) {
	for name, row := range map[string]struct {
		previous, target, first int32
		direction               string
		added, removed          string
	}{
		"up":                        {1, 3, 0, "up", "1,2", ""},
		"up from none":              {0, 2, 0, "up", "0,1", ""},
		"down":                      {5, 3, 0, "down", "", "3,4"},
		"down to none":              {2, 0, 0, "down", "", "0,1"},
		"up, ordinals from 7":       {1, 3, 7, "up", "8,9", ""},
		"down, ordinals from 7":     {3, 1, 7, "down", "", "8,9"},
		"to none, ordinals from 7":  {2, 0, 7, "down", "", "7,8"},
		"a retry, and nothing left": {2, 2, 0, "up", "", ""},
	} {
		for _, hook := range []string{"pre", "post", "onFailure"} {
			job := scaleHook(t, hook, row.previous, row.target, time.Minute, startsAt(row.first))
			env := map[string]string{}
			for _, e := range job.Spec.Template.Spec.Containers[0].Env[:11] {
				env[strings.TrimPrefix(e.Name, "DRYDOCK_")] = e.Value
			}
			facts := factsOf(t, job)
			if facts.Direction != row.direction || listed(facts.Added) != row.added || listed(facts.Removed) != row.removed || facts.Hook != hook ||
				facts.Current != row.previous || facts.Desired != row.target || facts.Added == nil || facts.Removed == nil {
				t.Errorf("%s, %s: %+v", name, hook, facts)
			}
			if env["DIRECTION"] != row.direction || env["ADDED"] != row.added || env["REMOVED"] != row.removed || env["HOOK"] != hook {
				t.Errorf("%s, %s: %v", name, hook, env)
			}
		}
	}
}

// factsOf returns the facts in the hook's file.
func factsOf(t *testing.T, job *batchv1.Job) api.HookFacts {
	t.Helper()
	var facts api.HookFacts
	if err := json.Unmarshal([]byte(job.Spec.Template.Annotations[api.HookAnnotation]), &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

func listed(ordinals []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ordinals), " ", ","), "[]")
}

// TestHookFileIsWhatIsPromised: the file is a contract with every hook, so it is compared as text.
func TestHookFileIsWhatIsPromised(t *testing.T) {
	const want = `{"hook":"post","direction":"down","current":3,"desired":1,"paused":false,"added":[],"removed":[1,2],"namespace":"shop","set":"web",` +
		`"scaler":"pilot","operation":"0123456789ab"}`
	if got := scaleHook(t, "post", 3, 1, time.Minute).Spec.Template.Annotations[api.HookAnnotation]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestScaleHookKeepsThePolicyOfItsTemplate: a template may ask for the last lines of the log as its message.
func TestScaleHookKeepsThePolicyOfItsTemplate(t *testing.T) {
	set := workload()
	template, err := resources.ParseScaleHook(set, "the hook", `{"spec":{"containers":[{"name":"sh","image":"x","terminationMessagePolicy":"FallbackToLogsOnError"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	record := &api.Scale{Header: api.Header{Operation: build.ID}, Previous: 1, Target: 2}
	job := resources.MakeScaleHook(set, record, "pre", template, time.Minute)
	if got := job.Spec.Template.Spec.Containers[0].TerminationMessagePolicy; got != corev1.TerminationMessageFallbackToLogsOnError {
		t.Error(got)
	}
	if len(template.Annotations) > 0 || len(template.Spec.Volumes) > 0 {
		t.Error("the template was changed")
	}
}

// TestTemplateThatTakesThePlaceOfTheFile is refused before a scaling begins.
func TestTemplateThatTakesThePlaceOfTheFile(t *testing.T) {
	const c = `"name":"sh","image":"x"`
	for text, want := range map[string]string{
		`{"containers":[{` + c + `}],"volumes":[{"name":"drydock-hook","emptyDir":{}}]}`:                                          "volume drydock-hook is Drydock's",
		`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/etc/drydock"}]}]}`:                                   `mounts a volume at "/etc/drydock"`,
		`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/a/../etc/drydock/"}]}]}`:                             `mounts a volume at "/etc/drydock"`,
		`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"etc/drydock"}]}]}`:                                    `mounts a volume at "/etc/drydock"`,
		`{"containers":[{` + c + `,"volumeDevices":[{"name":"x","devicePath":"/etc/drydock/d"}]}]}`:                               `mounts a volume at "/etc/drydock/d"`,
		`{"initContainers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/etc/drydock/x"}]}],"containers":[{"name":"b"}]}`: `mounts a volume at "/etc/drydock/x"`,
		`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/etc/drydocks"}]}]}`:                                  "",
		`{"containers":[{` + c + `}],"restartPolicy":"Always"}`:                                                                   "a hook runs once",
	} {
		_, err := resources.ParseScaleHook(workload(), "the hook", `{"spec":`+text+`}`)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "the hook: ")) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := resources.ParseScaleHook(workload(), "the hook",
		`{"metadata":{"annotations":{"drydock.dev/hook":"{}"}},"spec":{"containers":[{`+c+`}]}}`); err == nil {
		t.Error("a template may write its own facts")
	}
}

// TestScaleHookOfAGreatStep stays within what an object may have.
func TestScaleHookOfAGreatStep(t *testing.T) {
	job := scaleHook(t, "post", 0, 2147483647, time.Minute)
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		if len(e.Value) > 64<<10 {
			t.Errorf("%s has %d bytes", e.Name, len(e.Value))
		}
	}
	if n := len(job.Spec.Template.Annotations[api.HookAnnotation]); n > 64<<10 {
		t.Errorf("the file has %d bytes", n)
	}
}

// TestScaleHookHasALimit, whatever is left of its time: the API server takes no Job without a second.
func TestScaleHookHasALimit(t *testing.T) {
	for left, want := range map[time.Duration]int64{10 * time.Minute: 600, time.Millisecond: 1, 0: 1, -time.Hour: 1} {
		if got := scaleHook(t, "pre", 1, 2, left).Spec.ActiveDeadlineSeconds; got == nil || *got != want {
			t.Errorf("%s left: %v", left, got)
		}
	}
}
