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
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const switchover = `
metadata:
  labels: {role: switchover}
  annotations: {sidecar.istio.io/inject: "false"}
  finalizers: [example.com/keep]
  name: mine
spec:
  serviceAccountName: switcher
  initContainers: [{name: wait, image: "dev.local/any:1"}]
  containers:
  - name: sh
    image: dev.local/any:1
    args: [switchover, $(DRYDOCK_POD)]
    env: [{name: DRYDOCK_SET, value: mine}]
`

func TestHookJob(t *testing.T) {
	set := build.With(workload(), build.Annotation(api.BeforeMemberAnnotation, switchover))
	template, err := resources.HookTemplate(set, resources.BeforeMember)
	if err != nil {
		t.Fatal(err)
	}
	settings := build.Settings()
	settings.HookTimeout = 15 * time.Minute
	link := api.Link{Operation: build.ID, Role: api.RoleHook, Namespace: set.Namespace, Set: api.SetRef{Name: set.Name, UID: set.UID},
		Member: ptr.To(2)}
	compareYAML(t, "hook", resources.MakeHook(set, resources.BeforeMember, template, link, 3, settings))
	if template, err := resources.HookTemplate(set, resources.AfterMember); template != nil || err != nil {
		t.Errorf("the hook that the set does not have is %v, %v", template, err)
	}
}

func TestInvalidHookTemplates(t *testing.T) {
	const container = "containers: [{name: sh, image: x}]"
	const claim = "volumes: [{name: x, persistentVolumeClaim: {claimName: "
	file := golden.Open(t)
	rows := map[string]string{
		"an empty text":                "",
		"incomplete JSON":              "{",
		"an unknown field":             "spec: {container: []}",
		"no container":                 "spec: {containers: []}",
		"a YAML anchor":                "a: &a [x]\nb: *a",
		"a text of 1 MiB":              strings.Repeat("x", 1<<20),
		"restartPolicy Always":         "spec: {restartPolicy: Always, " + container + "}",
		"restartPolicy OnFailure":      "spec: {restartPolicy: OnFailure, " + container + "}",
		"labels of the set's selector": "metadata: {labels: {app: web}}\nspec: {" + container + "}",
		"a label of Drydock":           "metadata: {labels: {drydock.dev/operation: 0123456789ab}}\nspec: {" + container + "}",
		"an annotation of Drydock":     "metadata: {annotations: {drydock.dev/operation: '{}'}}\nspec: {" + container + "}",
		"a blank success message":      "metadata: {annotations: {drydock.dev/success-message: ' '}}\nspec: {" + container + "}",
		"a grace period of an hour":    "spec: {terminationGracePeriodSeconds: 3600, " + container + "}",
		"a probe's grace period of an hour": "spec: {containers: [{name: c, image: x, livenessProbe: {exec: {command: [\"true\"]}, " +
			"terminationGracePeriodSeconds: 3600}}]}",
		"a success message of two lines": "metadata: {annotations: {drydock.dev/success-message: \"a\\nb\"}}\nspec: {" + container + "}",
		"a success message of 5,000 bytes": "metadata: {annotations: {drydock.dev/success-message: " + strings.Repeat("x", 5000) + "}}\nspec: {" +
			container + "}",
		"a claim of the set":                     "spec: {" + container + ", " + claim + "data-web-1}}]}",
		"a claim that the set does not have yet": "spec: {" + container + ", " + claim + "data-web-99}}]}",
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Run(name, func(t *testing.T) {
			set := build.With(workload(), build.Annotation(api.AfterMemberAnnotation, rows[name]))
			template, err := resources.HookTemplate(set, resources.AfterMember)
			if err == nil || !strings.Contains(err.Error(), api.AfterMemberAnnotation) || len(err.Error()) > 500 {
				t.Fatalf("the template is accepted as %v, error %v", template, err)
			}
			file.Entry(t, name, err.Error())
		})
	}
}

// TestHookTemplateMayAskForSuccessMessage: of Drydock's keys, a template may have only this one, and the pod of its Job keeps it.
func TestHookTemplateMayAskForSuccessMessage(t *testing.T) {
	set := build.With(workload(), build.Annotation(api.AfterMemberAnnotation,
		"{metadata: {annotations: {drydock.dev/success-message: drained}}, spec: {terminationGracePeriodSeconds: 3600, "+
			"containers: [{name: sh, image: x}]}}"))
	template, err := resources.HookTemplate(set, resources.AfterMember)
	if err != nil {
		t.Fatal(err)
	}
	job := resources.MakeHook(set, resources.AfterMember, template, api.Link{Operation: build.ID, Member: new(int)}, 1, build.Settings())
	if got := job.Spec.Template.Annotations[api.SuccessMessageAnnotation]; got != "drained" {
		t.Errorf("the pod of the Job asks for the message %q", got)
	}
}

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
