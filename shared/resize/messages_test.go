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

// whatToDo is an imperative of a message.
var whatToDo = regexp.MustCompile(`(?i)(; |\. |, or |: )(to |then )?(ask for|delete|wait|raise|name|remove|set|write|correct|give|change|find out|pause|move|apply|look at|bring|add|if it is)\b`)

func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	told := map[api.Reason]bool{}
	for _, in := range []Input{
		given(wants("data=32Mi@nvme", build.Owned("Database", "main"), rootless, build.Annotation(api.MoverAnnotation, "speed: high"),
			method(api.MethodExpand)),
			grower("data-web-0", "64Mi", build.Label("app", "else"), build.Deleting(), block),
			objects{build.Pod("reports", []string{"data-web-0"})}),
		given(wants("data=lots"), two()), given(wants("db=1Gi", method("magic")), two()),
		given(objects{build.Set("web", build.Resize("data=1Gi"))}),
		quota(given(wants("data=128Mi@fast"), two()), "requests.storage", "1", "0"),
		given(wants("data=128Mi@fast"), two(), objects{leftBehind("pv-a", "data-web-0", "64Mi", 1)}).allowing(1),
		given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi", build.Finalizers("example.com/keep"))),
		given(wants("data=128Mi@fast"), objects{build.Claim("data-web-0", "64Mi", build.On(""))}),
		given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi", build.Annotation(api.OperationAnnotation, "{}"))),
		many(300),
	} {
		wish := Read(in)
		found := wish.Problems
		found = append(found, Unsettled(in, wish)...)
		for _, p := range append(found, Preflight(in, wish)...) {
			told[p.Reason] = true
			if !whatToDo.MatchString(p.Message) {
				t.Errorf("%s does not say what to do: %s", p.Reason, p.Message)
			}
		}
	}
	if len(told) < 17 {
		t.Errorf("only %d reasons were looked at: %v", len(told), told)
	}
}
