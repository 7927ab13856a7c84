package detectresize

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit/build"
)

// wants is StatefulSet web of the class that can grow, which asks for the request.
func wants(request string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", roomy), build.Resize(request)}, options...)...)}
}

func modes(m ...corev1.PersistentVolumeAccessMode) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = m })
}

func method(m api.Method) build.Option {
	return build.Annotation(api.ResizeMethodAnnotation, string(m))
}

func TestMethod(t *testing.T) {
	two := append(grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")...)
	twice := func(request string, options ...build.Option) Input {
		return growingWorld(wants(request, options...), two)
	}
	larger := grower("data-web-1", "100Mi", "100Mi")
	retry := build.Annotation(api.RetryAnnotation, "")
	forbids := twice("data=128Mi").with(func(c *sts.Cluster) { c.Classes[roomy] = &storagev1.StorageClass{AllowVolumeExpansion: ptr.To(false)} })
	slow := build.Status(expanding(func(s *api.Resize) { s.Phase, s.FailedAt = api.Failed, api.Expanding }))
	for name, row := range map[string]struct {
		in      Input
		want    string // claim:method:from>to, in order
		method  api.Method
		phase   api.Phase
		message string
	}{
		"the class allows it": {twice("data=128Mi"), "data-web-0:expand:64Mi>128Mi data-web-1:expand:64Mi>128Mi",
			api.MethodExpand, api.Expanding, "2 claims will grow on their volumes"},
		"it is asked for, and possible": {twice("data=128Mi", method("expand")), "data-web-0:expand:64Mi>128Mi data-web-1:expand:64Mi>128Mi",
			api.MethodExpand, api.Expanding, "2 claims will grow on their volumes"},
		"auto is as if nothing was said": {twice("data=128Mi", method("auto")), "data-web-0:expand:64Mi>128Mi data-web-1:expand:64Mi>128Mi",
			api.MethodExpand, api.Expanding, "2 claims will grow on their volumes"},
		"a copy is asked for": {twice("data=128Mi", method("copy")), "data-web-0::64Mi>128Mi data-web-1::64Mi>128Mi",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"the class does not say": {growingWorld(wants("data=128Mi"), both()), "data-web-0::64Mi>128Mi data-web-1::64Mi>128Mi",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"the class says no": {forbids, "data-web-0::64Mi>128Mi data-web-1::64Mi>128Mi",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"a volume cannot shrink": {twice("data=32Mi"), "data-web-0::64Mi>32Mi data-web-1::64Mi>32Mi",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"another class": {twice("data=128Mi@fast"), "data-web-0::64Mi>128Mi@fast data-web-1::64Mi>128Mi@fast",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"another access mode": {twice("data=64Mi:RWX"), "data-web-0::64Mi>64Mi:ReadWriteMany data-web-1::64Mi>64Mi:ReadWriteMany",
			api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"the class and mode that it has": {twice("data=128Mi@roomy:RWO"), "data-web-0:expand:64Mi>128Mi data-web-1:expand:64Mi>128Mi",
			api.MethodExpand, api.Expanding, "2 claims will grow on their volumes"},
		"modes in another order are the same": {
			growingWorld(wants("data=128Mi:RWX+RWO"), grower("data-web-0", "64Mi", "64Mi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany))),
			"data-web-0:expand:64Mi>128Mi", api.MethodExpand, api.Expanding, "1 claims will grow on their volumes"},
		"one grows, the other shrinks": {growingWorld(wants("data=80Mi"), grower("data-web-0", "64Mi", "64Mi"), larger), "data-web-0:expand:64Mi>80Mi data-web-1::100Mi>80Mi",
			api.MethodCopy, api.Expanding, "1 claims will grow on their volumes, then 1 will be copied to new ones"},
		"templates of two classes": {
			growingWorld(wants("data=128Mi,logs=64Mi", build.Template("logs", "32Mi", "fixed")), grower("data-web-0", "64Mi", "64Mi"), bound(build.Claim("logs-web-0", "32Mi"))),
			"data-web-0:expand:64Mi>128Mi logs-web-0::32Mi>64Mi", api.MethodCopy, api.Expanding, "1 claims will grow on their volumes, then 1 will be copied to new ones"},
		"only the template is behind": {growingWorld(wants("data=128Mi"), grower("data-web-0", "128Mi", "128Mi")), "",
			api.MethodExpand, api.Planned, "the set is created again with its new templates"},
		"only the template is ahead": {twice("data=64Mi", build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("128Mi")
		})), "", api.MethodExpand, api.Planned, "the set is created again with its new templates"},
		"with auto, a claim that is larger and of another class keeps its size": {
			growingWorld(objects{build.Set("web", build.Template("data", "64Mi", "fast"), build.Resize("auto"))}, grower("data-web-0", "64Mi", "64Mi"), larger),
			"data-web-0::64Mi>64Mi@fast data-web-1::100Mi>100Mi@fast", api.MethodCopy, api.Planned, "2 claims will be copied to new volumes"},
		"with a size, it does not": {growingWorld(wants("data=64Mi@fast"), larger), "data-web-1::100Mi>64Mi@fast",
			api.MethodCopy, api.Planned, "1 claims will be copied to new volumes"},
		"a retry takes up a claim that asks already and has not grown": {
			growingWorld(wants("data=128Mi", slow, retry), grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")),
			"data-web-1:expand:64Mi>128Mi", api.MethodExpand, api.Expanding, "1 claims will grow on their volumes"},
		"or copies it, if that is asked for": {
			growingWorld(wants("data=128Mi", slow, retry, method("copy")), grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")),
			"data-web-1::64Mi>128Mi", api.MethodCopy, api.Planned, "1 claims will be copied to new volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := build.Stored(Decide(row.in))
			if s == nil {
				t.Fatal(Decide(row.in))
			}
			if got := becomes(s); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if s.Method != row.method || s.Phase != row.phase || s.Message != row.message {
				t.Errorf("%s in %s: %s", s.Method, s.Phase, s.Message)
			}
		})
	}
}

// becomes is what each claim of the operation is to become, and how.
func becomes(s *api.Resize) string {
	var all []string
	for _, c := range s.Claims {
		text := c.Name + ":" + string(c.Method) + ":" + c.From.String() + ">" + c.To.String()
		if c.Class != "" {
			text += "@" + c.Class
		}
		for _, m := range c.Modes {
			text += ":" + string(m)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestI2OnlyCopiesTellPauseOwnerAtOnce: claims that can grow do so before anybody is paused.
func TestI2OnlyCopiesTellPauseOwnerAtOnce(t *testing.T) {
	two := append(grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")...)
	const intent = `do ResizeDetected: patch statefulsets web {+status}; event ResizeDetected `
	check(t, map[string]row{
		"all grow: only the intent is written": {
			in:   growingWorld(wants("data=128Mi", build.WhenScaled("Delete")), two),
			want: intent + `"2 claims will grow on their volumes"`,
			next: "Expanding ResizeDetected" + due + parts,
		},
		"the retry is taken with it": {
			in:   growingWorld(wants("data=128Mi", build.Status(build.Operation(api.Refused)), build.Annotation(api.RetryAnnotation, "")), two),
			want: strings.Replace(intent, "{+status}", "{+status, -retry}", 1) + `"2 claims will grow on their volumes"`,
			next: strings.Replace("Expanding ResizeDetected"+due, "attempt 1", "attempt 2", 1) + parts,
		},
		"the set alone is created again, and keeps its retention policy": {
			in:   growingWorld(wants("data=128Mi", build.WhenScaled("Delete")), grower("data-web-0", "128Mi", "128Mi")),
			want: intent + `"the set is created again with its new templates" -> resize.detected`,
			next: planned,
		},
		"claims are copied: scaling down would delete them": {
			in:   growingWorld(wants("data=128Mi", build.WhenScaled("Delete"), method("copy")), two),
			want: `do ResizeDetected: patch statefulsets web {whenScaled Retain, +status}; ` + told,
			next: strings.Replace(planned, "replicas 2", "replicas 2, whenScaled Delete", 1) + parts,
		},
	})
}

func TestI7NothingLagsThatIsAsAskedFor(t *testing.T) {
	check(t, map[string]row{
		"auto: a claim that is larger than its template stays so": {
			in: growingWorld(wants("auto"), grower("data-web-0", "100Mi", "100Mi")), want: "noop UpToDate"},
		"auto: a template without class takes any": {
			in: growingWorld(objects{build.Set("web", build.Template("data", "64Mi", ""), build.Resize("auto"))}, grower("data-web-0", "64Mi", "64Mi")), want: "noop UpToDate"},
		"the storage gave more than was asked for": {
			in: growingWorld(wants("data=64Mi"), grower("data-web-0", "64Mi", "1Gi")), want: "noop UpToDate"},
		"somebody else's expansion is under way": {
			in: growingWorld(wants("auto"), grower("data-web-0", "128Mi", "64Mi")), want: "noop UpToDate"},
		"the class and modes are named, and are so": {
			in: growingWorld(wants("data=64Mi@roomy:RWO"), grower("data-web-0", "64Mi", "64Mi")), want: "noop UpToDate"},
	})
}
