package resize

import (
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// remedy matches the imperative in a message.
var remedy = regexp.MustCompile(`(?i)(; |\. |, or |: )(then )?` +
	`(add|request|delete|wait|raise|name|remove|write|correct|pause|move|look at|restore|if it belongs|create|set)\b`)

func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	checked := map[api.Reason]bool{}
	for _, in := range []Input{
		input(setAsking("data=32Mi@nvme", build.ControlledBy("Database", "main"), rootless, build.Annotation(api.MoverAnnotation, "speed: high"),
			method(api.MethodExpand)),
			expandable("data-web-0", "64Mi", build.Label("app", "else"), build.Deleting(), block),
			objects{build.Pod("reports", []string{"data-web-0"})}),
		input(setAsking("data=lots"), twoClaims()), input(setAsking("db=1Gi", method("magic")), twoClaims()),
		input(objects{build.Set("web", build.Resize("data=1Gi"))}),
		quota(input(setAsking("data=128Mi@fast"), twoClaims()), "requests.storage", "1", "0"),
		input(setAsking("data=128Mi@fast"), twoClaims(), objects{retainedVolume("pv-a", "data-web-0", "64Mi", 1)}).withRetainedLimit(1),
		input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Finalizers("example.com/keep"))),
		input(setAsking("data=128Mi@fast"), objects{build.Claim("data-web-0", "64Mi", build.BoundTo(""))}),
		input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Annotation(api.OperationAnnotation, "{}"))),
		input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", requesting("1Ti"))),
		manyClaims(300),
	} {
		changes := Compare(in)
		found := changes.Problems
		found = append(found, StartObstacles(in, changes)...)
		for _, p := range append(found, Preflight(in, changes)...) {
			checked[p.Reason] = true
			if !remedy.MatchString(p.Message) {
				t.Errorf("%s does not say what to do: %s", p.Reason, p.Message)
			}
		}
	}
	if len(checked) < 17 {
		t.Errorf("only %d reasons were checked: %v", len(checked), checked)
	}
}
