package resources_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
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
