package resources_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
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
	compare(t, "hook", resources.MakeHook(set, resources.BeforeMember, template, link, 3, settings))
	if template, err := resources.HookTemplate(set, resources.AfterMember); template != nil || err != nil {
		t.Errorf("the other hook is %v, %v", template, err)
	}
}

func TestHookTemplateThatIsRefused(t *testing.T) {
	const container = "containers: [{name: sh, image: x}]"
	for text, want := range map[string]string{
		"":                         "spec.containers is empty",
		"{":                        "is no pod template",
		"spec: {container: []}":    "is no pod template",
		"spec: {containers: []}":   "spec.containers is empty",
		"a: &a [x]\nb: *a":         "is no pod template",
		strings.Repeat("x", 1<<20): "is no pod template",
		"spec: {restartPolicy: Always, " + container + "}":    `restartPolicy is "Always"`,
		"spec: {restartPolicy: OnFailure, " + container + "}": `restartPolicy is "OnFailure"`,
		"metadata: {labels: {app: web}}\nspec: {" + container + "}": "its labels match the " +
			"StatefulSet's selector",
		"metadata: {labels: {drydock.dev/operation: 0123456789ab}}\nspec: {" + container + "}": "must not begin with drydock.dev/",
		"metadata: {annotations: {drydock.dev/operation: '{}'}}\nspec: {" + container + "}":    "must not begin with drydock.dev/",
		"spec: {" + container + ", volumes: [{name: x, persistentVolumeClaim: {claimName: data-web-1}}]}": "it mounts a claim of the " +
			"StatefulSet",
		"spec: {" + container + ", volumes: [{name: x, persistentVolumeClaim: {claimName: data-web-99}}]}": "it mounts a claim of the " +
			"StatefulSet",
	} {
		set := build.With(workload(), build.Annotation(api.AfterMemberAnnotation, text))
		template, err := resources.HookTemplate(set, resources.AfterMember)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), api.AfterMemberAnnotation) ||
			len(err.Error()) > 500 {
			t.Errorf("%.60q is %v, %v, want %q", text, template, err, want)
		}
	}
}
