//go:build cluster

package api

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// reshaped returns the deployed set with another service, another pod management policy, and labels and annotations on
// its template.
func reshaped(size string) *appsv1.StatefulSet {
	set := deployed(kit.GrowingClass, size)
	set.Spec.ServiceName, set.Spec.PodManagementPolicy = "other", appsv1.OrderedReadyPodManagement
	set.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"example.com/tier": "gold", "team": ""}
	set.Spec.VolumeClaimTemplates[0].Annotations = map[string]string{"example.com/backup": "0 3 * * *"}
	return set
}

const reshapedRequest = "data/annotations/example.com/backup=0 3 * * *,data/labels/example.com/tier=gold,data/labels/team=," +
	"podManagementPolicy=OrderedReady,serviceName=other"

// expectRequested expects that the set has the request, and that the request comes from an applied manifest.
func (a *applied) expectRequested(request string) {
	a.t.Helper()
	set := a.Set("web")
	for _, key := range []string{api.ResizeAnnotation, api.ResizeAppliedAnnotation} {
		if got := set.Annotations[key]; got != request {
			a.t.Errorf("%s is %q, want %q", key, got, request)
		}
	}
}

// identity returns the pods of the namespace, their revisions, and the field managers of the set other than Drydock. They
// must not change when the set is created again.
func (a *applied) identity() string {
	a.t.Helper()
	var words []string
	pods, err := a.Kube.CoreV1().Pods(a.Namespace).List(a.t.Context(), metav1.ListOptions{})
	must(a.t, err)
	for _, pod := range pods.Items {
		words = append(words, pod.Name, string(pod.UID), pod.Labels[appsv1.ControllerRevisionHashLabelKey])
	}
	for _, m := range a.Set("web").ManagedFields {
		if m.Subresource == "" && m.Manager != api.FieldManager {
			words = append(words, m.Manager)
		}
	}
	return strings.Join(words, " ")
}

// TestAppliedFieldsReplaceSetAroundItsPods: an applied manifest may change immutable fields. Drydock creates the set
// again, and the pods keep running. Afterwards, the set equals the manifest, so another apply writes nothing.
func TestAppliedFieldsReplaceSetAroundItsPods(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string][]string{"client-side": clientSide, "server-side": serverSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, apply, kit.GrowingClass)
			before := a.identity()
			set := reshaped("64Mi")
			expectWarning(t, a.applySet(set), reshapedRequest, " service")
			a.expectRequested(reshapedRequest)
			a.expectNoWriteByApply(set)
			status := a.Finish(a.drive, "web")
			expectPhase(t, status, api.Succeeded)
			expectMentions(t, status.Message, "labels", "annotations")
			a.expectFields(set)
			a.expectNoWriteByApply(set)
			if said, err := kubectl(t, a.World, slices.Concat([]string{"diff"}, apply[1:], []string{write(t, set)})...); err != nil {
				t.Errorf("kubectl diff: %v: %s", err, said)
			}
			if after := a.identity(); after != before {
				t.Errorf("pods and managers were %s, and are %s", before, after)
			}
			expectWhole(t, a.World, "web", 1, "data-web-0")
			a.Scale("web", 2)
			untilReady(a.World, a.drive, "web", 2)
			if labels := a.Claim("data-web-1").Labels; labels["example.com/tier"] != "gold" {
				t.Errorf("a new claim has the labels %v", labels)
			}
		})
	}
}

// expectFields expects that the set has the service, the pod management policy and the templates of the manifest.
func (a *applied) expectFields(want *appsv1.StatefulSet) {
	a.t.Helper()
	set := a.Set("web")
	render := func(s *appsv1.StatefulSet) string {
		words := []string{s.Spec.ServiceName, string(s.Spec.PodManagementPolicy)}
		for _, c := range s.Spec.VolumeClaimTemplates {
			words = append(words, c.Name, c.Spec.Resources.Requests.Storage().String(), c.Labels["example.com/tier"],
				c.Annotations["example.com/backup"])
		}
		return strings.Join(words, " ")
	}
	if render(set) != render(want) {
		a.t.Errorf("the set has %s, want %s", render(set), render(want))
	}
}

// TestAppliedSizesAndFieldsAreOneOperation: a manifest that changes a size and other fields becomes one request, and one
// operation carries it out.
func TestAppliedSizesAndFieldsAreOneOperation(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.GrowingClass)
	before := a.identity()
	set := reshaped("128Mi")
	a.applySet(set)
	a.expectRequested("data=128Mi+," + reshapedRequest)
	status := a.Finish(a.drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Attempt != 1 || len(status.Expansions) != 1 {
		t.Errorf("the operation is %s", describe(status))
	}
	a.expectFields(set)
	expectSize(t, a.World, "128Mi", "data-web-0")
	a.expectNoWriteByApply(set)
	if after := a.identity(); after != before {
		t.Errorf("pods and managers were %s, and are %s", before, after)
	}
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestAppliedFieldsAreWithdrawn: before a request is carried out, an apply of the set's present fields withdraws it.
// After the operation, an apply of the old manifest is a new request.
func TestAppliedFieldsAreWithdrawn(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string][]string{"client-side": clientSide, "server-side": serverSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, apply, kit.GrowingClass)
			old := deployed(kit.GrowingClass, "64Mi")
			a.applySet(reshaped("64Mi"))
			a.expectRequested(reshapedRequest)
			expectWarning(t, a.applySet(old), reshapedRequest)
			a.expectRequested("")
			a.applySet(reshaped("64Mi"))
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			a.applySet(old)
			a.expectRequested(
				"data/annotations/example.com/backup-,data/labels/example.com/tier-,data/labels/team-,podManagementPolicy=Parallel,serviceName=web",
			)
			a.untilOtherRequest(api.Succeeded, reshapedRequest)
			a.expectFields(old)
			a.expectNoWriteByApply(old)
			expectWhole(t, a.World, "web", 1, "data-web-0")
		})
	}
}

// untilOtherRequest waits until an operation for a request other than this one is in the phase.
func (a *applied) untilOtherRequest(phase api.Phase, request string) {
	a.t.Helper()
	a.Eventually("another operation is "+string(phase), func() string {
		if err := a.drive.Tick(a.t.Context()); err != nil {
			return err.Error()
		}
		if status := a.Status("web"); status.Phase != phase || status.Request == request {
			return describe(status)
		}
		return ""
	})
}

// logs returns a volumeClaimTemplate with the name logs.
func logs() corev1.PersistentVolumeClaim {
	claim := kit.WorldSet("web", 1, "32Mi", "logs").Spec.VolumeClaimTemplates[0]
	class := kit.GrowingClass
	claim.Spec.StorageClassName = &class
	return claim
}

// addMount mounts the volume in the first container of the pod template.
func addMount(set *appsv1.StatefulSet, name string) {
	c := &set.Spec.Template.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
}

// TestAddedTemplate: the StatefulSet controller cannot add a volume to an existing pod. While a pod lacks the volume of a
// template, the controller repairs no member. So Drydock refuses the request until the set has no pods.
func TestAddedTemplate(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.GrowingClass)
	set := deployed(kit.GrowingClass, "64Mi")
	set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, logs())
	mounted := set.DeepCopy()
	addMount(mounted, "logs")
	a.expectUnchanged("the template and its mount are applied in one write", func() {
		said, err := kubectl(t, a.World, "apply", "-f", write(t, mounted))
		if err == nil || !strings.Contains(said, `volumeMounts[0].name: Not found: "logs"`) {
			t.Errorf("error %v: %s", err, said)
		}
	})
	const request = "+logs=32Mi@" + kit.GrowingClass + ":RWO"
	expectWarning(t, a.applySet(set), request, "zero")
	a.expectRequested(request)
	status := a.Finish(a.drive, "web")
	expectPhase(t, status, api.Refused)
	expectMentions(t, status.Message, "zero")
	if status.Reason != api.PodsLackVolume {
		t.Errorf("reason %s, want %s", status.Reason, api.PodsLackVolume)
	}
	expectWarning(t, a.applySet(set), request, string(api.PodsLackVolume))

	none := int32(0)
	set.Spec.Replicas = &none
	a.applySet(set)
	a.expectRequested(request)
	a.untilPhase(api.Succeeded)
	a.expectNoWriteByApply(set)
	a.applySet(mounted)
	untilReady(a.World, a.drive, "web", 1)
	a.expectNoWriteByApply(mounted)
	if logs := a.Claim("logs-web-0"); logs == nil || logs.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim of the new template is %v", logs)
	}
	expectWhole(t, a.World, "web", 1, "data-web-0", "logs-web-0")
}

// TestRemovedTemplate: an old manifest must not remove a template by mistake, so the removal needs the annotation
// drydock.dev/templates=any. The pods keep running, and the claims of the template stay.
func TestRemovedTemplate(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallApply()
	a := &applied{w, t, w.Drive(nil), serverSide}
	two := deployed(kit.GrowingClass, "64Mi")
	two.Spec.VolumeClaimTemplates = append(two.Spec.VolumeClaimTemplates, logs())
	a.applySet(two)
	untilReady(w, a.drive, "web", 1)
	before := a.identity()
	single := deployed(kit.GrowingClass, "64Mi")
	a.expectRejected(single)
	single.Annotations[api.TemplatesAnnotation] = "any"
	mounted := single.DeepCopy()
	addMount(mounted, "logs")
	a.expectRejected(mounted)
	a.applySet(single)
	a.expectRequested("-logs")
	status := a.Finish(a.drive, "web")
	expectPhase(t, status, api.Succeeded)
	expectMentions(t, status.Message, "logs")
	a.expectFields(single)
	a.expectNoWriteByApply(single)
	if after := a.identity(); after != before {
		t.Errorf("pods and managers were %s, and are %s", before, after)
	}
	expectWhole(t, a.World, "web", 1, "data-web-0", "logs-web-0")
}

// TestRemovedTemplateAndItsMount: one write removes a template and its mount. The rollout and the operation run at the
// same time.
func TestRemovedTemplateAndItsMount(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallApply()
	a := &applied{w, t, w.Drive(nil), clientSide}
	two := deployed(kit.GrowingClass, "64Mi")
	two.Annotations[api.TemplatesAnnotation] = "any"
	two.Spec.VolumeClaimTemplates = append(two.Spec.VolumeClaimTemplates, logs())
	addMount(two, "logs")
	a.applySet(two)
	untilReady(w, a.drive, "web", 1)
	single := deployed(kit.GrowingClass, "64Mi")
	single.Annotations[api.TemplatesAnnotation] = "any"
	a.applySet(single)
	a.expectRequested("-logs")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	a.expectFields(single)
	a.expectNoWriteByApply(single)
	expectWhole(t, a.World, "web", 1, "data-web-0", "logs-web-0")
	w.Eventually("the pod is of the new revision", func() string {
		if set := w.Set("web"); set.Status.UpdatedReplicas != 1 || statefulset.WhyRollingOut(set) != "" {
			return statefulset.WhyRollingOut(set)
		}
		return ""
	})
}

// TestSetWithoutTemplates: a set without templates and pods gets another service, and then its first template.
func TestSetWithoutTemplates(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallApply()
	a := &applied{w, t, w.Drive(nil), serverSide}
	set := deployed(kit.GrowingClass, "64Mi")
	none := int32(0)
	set.Spec.Replicas, set.Spec.VolumeClaimTemplates = &none, nil
	a.applySet(set)
	set.Spec.ServiceName = "other"
	a.applySet(set)
	a.expectRequested("serviceName=other")
	a.expectNoWriteByApply(set)
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	a.expectFields(set)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{logs()}
	a.applySet(set)
	a.expectRequested("+logs=32Mi@" + kit.GrowingClass + ":RWO")
	a.untilOtherRequest(api.Succeeded, "serviceName=other")
	a.expectFields(set)
	a.expectNoWriteByApply(set)
}

// TestUnsupportedFieldChangesAreRejected: the API server rejects a manifest with changes that Drydock does not support.
func TestUnsupportedFieldChangesAreRejected(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.GrowingClass)
	data := func(change func(*corev1.PersistentVolumeClaim)) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { change(&s.Spec.VolumeClaimTemplates[0]) }
	}
	note := func(value string) func(*appsv1.StatefulSet) {
		return data(func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{"example.com/note": value} })
	}
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"an annotation with a comma":     note("a,serviceName=b"),
		"an annotation with quotes":      note(`{"a":1}`),
		"an annotation of two lines":     note("a\nb"),
		"an annotation that is too long": note(strings.Repeat("a", 300)),
		"a label that is no label":       data(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"tier": "a b"} }),
		"a key that is no key":           data(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a/b/c": "d"} }),
		"a service that is no name":      func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "a.b" },
		"turned off": func(
			s *appsv1.StatefulSet) {
			s.Spec.ServiceName = "b"
			s.Annotations[api.TemplatesAnnotation] = "off"
		},
		"a template before another": func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates = append([]corev1.PersistentVolumeClaim{logs()}, s.Spec.VolumeClaimTemplates...)
		},
		"another selector of pods": func(s *appsv1.StatefulSet) {
			s.Spec.Selector.MatchLabels["a"] = "b"
			s.Spec.Template.Labels["a"] = "b"
			s.Spec.ServiceName = "b"
		},
		"more changes than a request has": data(func(c *corev1.PersistentVolumeClaim) { c.Labels = manyLabels(api.MaxFields + 1) }),
	} {
		t.Run(name, func(t *testing.T) {
			a := *a
			a.t = t
			set := deployed(kit.GrowingClass, "64Mi")
			change(set)
			a.expectRejected(set)
		})
	}
	t.Run("as many as a request has", func(t *testing.T) {
		set := deployed(kit.GrowingClass, "64Mi")
		set.Spec.VolumeClaimTemplates[0].Labels = manyLabels(api.MaxFields)
		a.applySet(set)
		if _, err := api.ParseRequest(a.Set("web").Annotations[api.ResizeAnnotation]); err != nil {
			t.Error(err)
		}
	})
}

// manyLabels returns n labels with different keys.
func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[strings.Repeat("l", i+1)] = "v"
	}
	return labels
}
