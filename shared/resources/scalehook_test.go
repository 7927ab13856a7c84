package resources_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// scaleHook returns the Job of a scale hook of the workload.
func scaleHook(t *testing.T, hook string, previous, target int32, timeout time.Duration, options ...build.Option) *batchv1.Job {
	t.Helper()
	set := build.With(workload(), options...)
	template, err := resources.ParseScaleHook(set, "the hook", switchover)
	if err != nil {
		t.Fatal(err)
	}
	record := &api.Scale{Header: api.Header{Operation: build.ID, Kind: api.KindScale, Set: api.SetRef{Name: set.Name, UID: set.UID}},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: previous, Target: target, Start: statefulset.Start(set)}
	return resources.MakeScaleHook(set, record, hook, template, timeout)
}

func startsAt(first int32) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first} })
}

func TestScaleHookJob(t *testing.T) {
	compareYAML(t, "scale-hook", scaleHook(t, "pre", 5, 3, 10*time.Minute))
}

// TestHookNamesMembersOfTheScaling: another client has changed the first ordinal since the scaling began.
func TestHookNamesMembersOfTheScaling(t *testing.T) {
	record := &api.Scale{Previous: 3, Target: 1, Start: 0}
	if facts := resources.HookFacts(build.With(workload(), startsAt(1)), record, "post"); joinOrdinals(facts.Removed) != "1,2" {
		t.Errorf("the hook is told that %v were removed, want 1 and 2", facts.Removed)
	}
}

func TestScaleHookGetsFactsOfTheScaling(t *testing.T) {
	for name, row := range map[string]struct {
		previous, target, first int32
		direction               string
		added, removed          string
	}{
		"up":                              {1, 3, 0, "up", "1,2", ""},
		"up from zero":                    {0, 2, 0, "up", "0,1", ""},
		"down":                            {5, 3, 0, "down", "", "3,4"},
		"down to zero":                    {2, 0, 0, "down", "", "0,1"},
		"up, ordinals from 7":             {1, 3, 7, "up", "8,9", ""},
		"down, ordinals from 7":           {3, 1, 7, "down", "", "8,9"},
		"to zero, ordinals from 7":        {2, 0, 7, "down", "", "7,8"},
		"a retry with nothing left to do": {2, 2, 0, "up", "", ""},
	} {
		for _, hook := range []string{"pre", "post", "onFailure"} {
			job := scaleHook(t, hook, row.previous, row.target, time.Minute, startsAt(row.first))
			env := map[string]string{}
			for _, e := range job.Spec.Template.Spec.Containers[0].Env[:11] {
				env[strings.TrimPrefix(e.Name, "DRYDOCK_")] = e.Value
			}
			facts := factsOf(t, job)
			if facts.Direction != row.direction || joinOrdinals(facts.Added) != row.added || joinOrdinals(facts.Removed) != row.removed ||
				facts.Hook != hook ||
				facts.Current != row.previous || facts.Desired != row.target || facts.Added == nil || facts.Removed == nil {
				t.Errorf("%s, %s: %+v", name, hook, facts)
			}
			if env["DIRECTION"] != row.direction || env["ADDED"] != row.added || env["REMOVED"] != row.removed || env["HOOK"] != hook {
				t.Errorf("%s, %s: %v", name, hook, env)
			}
		}
	}
}

// factsOf returns the facts in the file of the hook.
func factsOf(t *testing.T, job *batchv1.Job) api.HookFacts {
	t.Helper()
	var facts api.HookFacts
	if err := json.Unmarshal([]byte(job.Spec.Template.Annotations[api.HookAnnotation]), &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

func joinOrdinals(ordinals []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ordinals), " ", ","), "[]")
}

// TestHookFileFormat: the file is a contract with all hooks, so the test compares its text.
func TestHookFileFormat(t *testing.T) {
	const want = `{"hook":"post","direction":"down","current":3,"desired":1,"paused":false,"added":[],"removed":[1,2],` +
		`"namespace":"shop","set":"web","scaler":"pilot","operation":"0123456789ab"}`
	if got := scaleHook(t, "post", 3, 1, time.Minute).Spec.Template.Annotations[api.HookAnnotation]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestScaleHookKeepsTerminationMessagePolicy: a template may request the last lines of the log as its message.
func TestScaleHookKeepsTerminationMessagePolicy(t *testing.T) {
	set := workload()
	template, err := resources.ParseScaleHook(set, "the hook",
		`{"spec":{"containers":[{"name":"sh","image":"x","terminationMessagePolicy":"FallbackToLogsOnError"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	record := &api.Scale{Header: api.Header{Operation: build.ID}, Previous: 1, Target: 2}
	job := resources.MakeScaleHook(set, record, "pre", template, time.Minute)
	if got := job.Spec.Template.Spec.Containers[0].TerminationMessagePolicy; got != corev1.TerminationMessageFallbackToLogsOnError {
		t.Error(got)
	}
	if len(template.Annotations) > 0 || len(template.Spec.Volumes) > 0 {
		t.Error("the template has changed")
	}
}

// TestTemplateThatConflictsWithTheFactsIsRefused: such a template is refused before the scaling starts.
func TestTemplateThatConflictsWithTheFactsIsRefused(t *testing.T) {
	const c = `"name":"sh","image":"x"`
	file := golden.Open(t)
	rows := map[string]struct {
		text    string
		refused bool
	}{
		"a volume with the reserved name": {`{"containers":[{` + c + `}],"volumes":[{"name":"drydock-hook","emptyDir":{}}]}`, true},
		"a mount at the directory":        {`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/etc/drydock"}]}]}`, true},
		"a mount at an unclean path of the directory": {`{"containers":[{` + c +
			`,"volumeMounts":[{"name":"x","mountPath":"/a/../etc/drydock/"}]}]}`, true},
		"a mount at a relative path": {`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"etc/drydock"}]}]}`, true},
		"a device in the directory":  {`{"containers":[{` + c + `,"volumeDevices":[{"name":"x","devicePath":"/etc/drydock/d"}]}]}`, true},
		"a mount of an init container": {`{"initContainers":[{` + c +
			`,"volumeMounts":[{"name":"x","mountPath":"/etc/drydock/x"}]}],"containers":[{"name":"b"}]}`, true},
		"a mount beside the directory": {`{"containers":[{` + c + `,"volumeMounts":[{"name":"x","mountPath":"/etc/drydocks"}]}]}`, false},
		"a pod that is restarted":      {`{"containers":[{` + c + `}],"restartPolicy":"Always"}`, true},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			_, err := resources.ParseScaleHook(workload(), "the hook", `{"spec":`+row.text+`}`)
			if (err != nil) != row.refused || err != nil && !strings.HasPrefix(err.Error(), "the hook: ") {
				t.Fatalf("refused with %v, want %v", err, row.refused)
			}
			if err == nil {
				err = errors.New("accepted")
			}
			file.Entry(t, name, err.Error())
		})
	}
	if _, err := resources.ParseScaleHook(workload(), "the hook",
		`{"metadata":{"annotations":{"drydock.dev/hook":"{}"}},"spec":{"containers":[{`+c+`}]}}`); err == nil {
		t.Error("a template with other facts is accepted")
	}
}

// TestScaleHookOfLargeStepIsBounded: the Job stays within the size limits of objects.
func TestScaleHookOfLargeStepIsBounded(t *testing.T) {
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

// TestScaleHookAlwaysHasADeadline: the deadline is at least a second, because the API server rejects a Job with less.
func TestScaleHookAlwaysHasADeadline(t *testing.T) {
	for left, want := range map[time.Duration]int64{10 * time.Minute: 600, time.Millisecond: 1, 0: 1, -time.Hour: 1} {
		if got := scaleHook(t, "pre", 1, 2, left).Spec.ActiveDeadlineSeconds; got == nil || *got != want {
			t.Errorf("%s left: %v", left, got)
		}
	}
}
