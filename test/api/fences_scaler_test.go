//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit"
)

// TestFenceOfScale: its token scales a set and writes the record of the scaling. It cannot change anything else of
// a set.
func TestFenceOfScale(t *testing.T) {
	t.Parallel()
	s := stealToken(t, layLoot(t), string(api.ScaleFunction))
	record := newRecord(api.KindScale, another, api.Scaling, api.SetRef{Name: "web"}).Encode()
	writesRecord := fmt.Sprintf(`{"metadata":{"annotations":{"drydock.dev/scale":%q}}}`, record)
	for _, body := range []string{
		`{"spec":{"replicas":3}}`,
		fmt.Sprintf(`{"metadata":{"annotations":{"drydock.dev/scale":%q}},"spec":{"replicas":3}}`, record),
		writesRecord,
	} {
		if err := s.patchSet("web", body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	s.loot.w.Annotate("web", map[string]string{api.ScaleAnnotation: "{}", api.SleepAnnotation: "{}", api.CleanupAnnotation: "{}",
		api.DeadLettersAnnotation: "[]"})
	if err := s.patchSet("web", `{"metadata":{"annotations":{"drydock.dev/scale":null}}}`); err != nil {
		t.Errorf("removing the record: %v", err)
	}
	for what, body := range map[string]string{
		"another pod template": `{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`,
		"a mark on its pods":   `{"spec":{"template":{"metadata":{"annotations":{"x":"y"}}}}}`,
		"the update strategy":  `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`,
		"the cleanup's mark":   `{"metadata":{"labels":{"drydock.dev/finalizer":"cleanup"}}}`,
		"its finalizer":        `{"metadata":{"finalizers":["drydock.dev/cleanup"]}}`,
		"a finalizer":          `{"metadata":{"finalizers":["example.com/x"]}}`,
		"an owner":             `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`,
		"a group":              `{"metadata":{"labels":{"drydock.dev/group":"x"}}}`,
		"the opt-in":           `{"metadata":{"labels":{"drydock.dev/managed":null}}}`,
	} {
		if err := s.patchSet("web", body); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, key := range []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation, api.DeadLettersAnnotation,
		api.AwakeUntilAnnotation, api.RetryAnnotation, api.LastActivityAnnotation, api.ResizeAnnotation, api.MoverAnnotation,
		api.CleanupTemplateAnnotation} {
		if err := s.annotateSet("web", key); !apierrors.IsForbidden(err) {
			t.Errorf("writing %s: %v", key, err)
		}
	}
	for _, key := range []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation, api.DeadLettersAnnotation} {
		if err := s.patchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)); !apierrors.IsForbidden(err) {
			t.Errorf("removing %s: %v", key, err)
		}
	}
	// The sets have not opted in. One at zero may have lost its labels and annotations while it was stopped, so it may be started.
	for _, write := range [][2]string{{"plain", `{"spec":{"replicas":3}}`}, {"plain", writesRecord}, {"zero", writesRecord}} {
		if err := s.patchSet(write[0], write[1]); !apierrors.IsForbidden(err) {
			t.Errorf("set %s, %s: %v", write[0], write[1], err)
		}
	}
	for _, body := range []string{`{"metadata":{"annotations":{"drydock.dev/stop":"{}"}}}`, `{"spec":{"replicas":3}}`} {
		if err := s.patchSet("zero", body); err != nil {
			t.Errorf("set zero, %s: %v", body, err)
		}
	}
}

// TestOnlyScaleScales: no other function writes the record of a scaling, or a count.
func TestOnlyScaleScales(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	for _, account := range accounts {
		if account == string(api.ScaleFunction) {
			continue
		}
		s := stealToken(t, l, account)
		if err := s.writeRecord("web", api.KindScale, another, api.Scaling); !apierrors.IsForbidden(err) {
			t.Errorf("%s writes the record: %v", account, err)
		}
		if err := s.patchSet("web", `{"spec":{"replicas":3}}`); s.may(t, account+" scales", err) {
			t.Errorf("%s scales: %v", account, err)
		}
		if err := s.createScaleHook(func(*batchv1.Job) {}); !apierrors.IsForbidden(err) {
			t.Errorf("%s runs a hook of a scaling: %v", account, err)
		}
	}
}

// TestFenceOfHookJobs: it runs only the hooks of a scaling.
func TestFenceOfHookJobs(t *testing.T) {
	t.Parallel()
	s := stealToken(t, layLoot(t), string(api.ScaleFunction))
	for _, hook := range []string{"pre", "post", "onFailure"} {
		if err := s.createScaleHook(func(j *batchv1.Job) { j.Name = api.ScaleHookName(operation, hook) }); err != nil {
			t.Errorf("hook %s: %v", hook, err)
		}
	}
	ten := int32(10)
	if err := s.createScaleHook(func(j *batchv1.Job) { j.Spec.BackoffLimit = &ten }); err != nil {
		t.Errorf("a hook that may fail ten times: %v", err)
	}
	for what, change := range scaleHookForgeries(s.loot) {
		if err := s.createScaleHook(change); !apierrors.IsForbidden(err) {
			t.Errorf("a Job with %s: %v", what, err)
		}
	}
	for _, job := range []string{api.MoverName(operation, 0, 1), "others"} {
		if err := s.deleteJob(job); !apierrors.IsForbidden(err) {
			t.Errorf("deleting Job %s: %v", job, err)
		}
	}
	s.deletesItsHook(t)
	if err := s.createHook(func(*batchv1.Job) {}); !apierrors.IsForbidden(err) {
		t.Errorf("restore's hook: %v", err)
	}
	if err := s.createMover(func(*batchv1.Job) {}); !apierrors.IsForbidden(err) {
		t.Errorf("a mover: %v", err)
	}
	restore := stealToken(t, s.loot, string(api.Restore))
	one := int32(1)
	for what, change := range map[string]func(*batchv1.Job){
		"another try": func(j *batchv1.Job) { j.Spec.BackoffLimit = &one },
		"what only a Scaler's hook is told": func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{
				api.HookAnnotation: "{}"}
		},
	} {
		if err := restore.createHook(change); !apierrors.IsForbidden(err) {
			t.Errorf("restore's hook with %s: %v", what, err)
		}
	}
	if err := restore.createHook(func(j *batchv1.Job) { j.Name = api.ScaleHookName(operation, "pre") }); !apierrors.IsForbidden(err) {
		t.Errorf("restore runs its hook by the name of another: %v", err)
	}
}

// deletesItsHook creates a hook of a scaling and deletes it.
func (s *thief) deletesItsHook(t *testing.T) {
	t.Helper()
	job := s.scaleHook(func(*batchv1.Job) {})
	if _, err := s.kube.BatchV1().Jobs(job.Namespace).Create(s.ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.deleteJob(job.Name); err != nil {
		t.Errorf("deleting its hook: %v", err)
	}
}

// scaleHookForgeries are changes after which a Job is no hook of a scaling.
func scaleHookForgeries(l loot) map[string]func(*batchv1.Job) {
	pod := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
	}
	two, eleven := int32(2), int32(11)
	return map[string]func(*batchv1.Job){
		"another name":        func(j *batchv1.Job) { j.Name = "mine" },
		"another hook":        func(j *batchv1.Job) { j.Name = "drydock-" + operation + "-before-scaling" },
		"a name of restore's": func(j *batchv1.Job) { j.Name = "drydock-" + operation + "-before-0-1" },
		"a generated name":    func(j *batchv1.Job) { j.Name, j.GenerateName = "", "drydock-" },
		"another role":        func(j *batchv1.Job) { j.Annotations[api.OperationAnnotation] = linkTo(l, api.RoleHook) },
		"no link":             func(j *batchv1.Job) { j.Annotations = nil },
		"no label":            func(j *batchv1.Job) { j.Labels = nil },
		"an owner": func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		},
		"endless retries":   func(j *batchv1.Job) { j.Spec.BackoffLimit = &eleven },
		"two pods":          func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &two, &two },
		"no time":           func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = nil },
		"a mark on its pod": func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{api.OperationLabel: operation} },
		"a link on its pod": func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{api.OperationAnnotation: linkTo(l, api.RoleHeld)}
		},
		"another annotation on its pod": func(j *batchv1.Job) { j.Spec.Template.Annotations["drydock.dev/final-pass"] = "x" },
		"a finalizer":                   func(j *batchv1.Job) { j.Spec.Template.Finalizers = []string{"example.com/x"} },
		"the node's network":            pod(func(p *corev1.PodSpec) { p.HostNetwork = true }),
		"the node's processes":          pod(func(p *corev1.PodSpec) { p.HostPID = true }),
		"the node's memory":             pod(func(p *corev1.PodSpec) { p.HostIPC = true }),
		"the node's files": pod(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "x",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}),
		"a driver of the node": pod(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "x",
				VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "x/y"}}})
		}),
		"all privileges": pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = privileged() }),
		"a capability":   pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = powerful("SYS_ADMIN") }),
		"privileges before it": pod(func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "x", Image: "x", SecurityContext: privileged()}}
		}),
	}
}

// createScaleHook creates scale' Job before a scaling, with a change.
func (s *thief) createScaleHook(change func(*batchv1.Job)) error {
	return s.createJob(s.scaleHook(change))
}

func (s *thief) scaleHook(change func(*batchv1.Job)) *batchv1.Job {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "dev.local/any:1"}}}}
	record := &api.Scale{Header: api.Header{Operation: operation, Kind: api.KindScale, Set: api.SetRef{Name: "web", UID: s.web.UID}},
		Previous: 1, Target: 2}
	job := resources.MakeScaleHook(s.web, record, "pre", template, time.Minute)
	change(job)
	return job
}

// user is a user with a few rights in the world's namespace.
type user struct {
	w       *kit.World
	kube    kubernetes.Interface
	scalers dynamic.ResourceInterface
}

// userOf returns a user with the rights, each VERBS and RESOURCES, and waits until they are in force.
func userOf(t *testing.T, w *kit.World, name string, rights ...[2]string) user {
	t.Helper()
	name += "-" + w.Namespace
	for _, right := range rights {
		w.Grant(name, right[0], right[1])
	}
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	u := user{w, kubernetes.NewForConfigOrDie(config),
		dynamic.NewForConfigOrDie(config).Resource(v1alpha1.GroupVersion.WithResource("scalers")).Namespace(w.Namespace)}
	w.Grant(name, "list", "configmaps") // the last right: when it is in force, all are
	w.Eventually(name+" has rights", func() string {
		if _, err := u.kube.CoreV1().ConfigMaps(w.Namespace).List(context.Background(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return u
}

// scalerSpec returns the spec of a Scaler of set web with the hooks.
func scalerSpec(hooks ...string) map[string]any {
	spec := map[string]any{"target": "web", "replicas": int64(1)}
	all := map[string]any{}
	for _, hook := range hooks {
		all[hook] = map[string]any{"job": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "sh", "image": "dev.local/any:1"}}}}}}
		spec["hooks"] = all
	}
	return spec
}

func (u user) create(name string, spec map[string]any) error {
	_, err := u.scalers.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Scaler", "metadata": map[string]any{"name": name}, "spec": spec}},
		metav1.CreateOptions{})
	return err
}

func (u user) patch(name string, spec map[string]any, subresources ...string) error {
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = u.scalers.Patch(context.Background(), name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}

var (
	maintains = [2]string{"create get patch update", "scalers.drydock.dev"}
	scalesAny = [2]string{"update", "statefulsets/scale.apps"}
	runsJobs  = [2]string{"create", "jobs.batch"}
	makesHPA  = [2]string{"create", "horizontalpodautoscalers.autoscaling"}
)

// TestScalerNeedsRightsOfItsAuthor: a Scaler cannot give its author more rights than the author has.
func TestScalerNeedsRightsOfItsAuthor(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	const policy, noScale, noJobs = "drydock-scalers", "statefulsets/scale", "jobs" // the resource of the missing right
	none := userOf(t, w, "none", maintains)
	expectForbidden(t, "a Scaler of a user without the right to scale", policy, none.create("none", scalerSpec()), noScale)
	runner := userOf(t, w, "runner", maintains, runsJobs)
	expectForbidden(t, "a Scaler of a user who may only run Jobs", policy, runner.create("runner", scalerSpec("pre")), noScale)

	plain := userOf(t, w, "plain", maintains, scalesAny)
	if err := plain.create("plain", scalerSpec()); err != nil {
		t.Fatalf("without hooks: %v", err)
	}
	for _, hook := range []string{"pre", "post", "onFailure"} {
		expectForbidden(t, "created with hook "+hook, policy, plain.create("hooked", scalerSpec(hook)), noJobs)
		expectForbidden(t, "hook "+hook+" comes later", policy, plain.patch("plain", scalerSpec(hook)), noJobs)
	}
	if err := plain.patch("plain", map[string]any{"conflictPolicy": "adopt"}); err != nil {
		t.Errorf("a change of something else: %v", err)
	}

	both := userOf(t, w, "both", maintains, scalesAny, runsJobs)
	if err := both.create("both", scalerSpec("pre", "post", "onFailure")); err != nil {
		t.Fatalf("with hooks: %v", err)
	}
	if err := plain.patch("both", map[string]any{"replicas": 2}); err != nil {
		t.Errorf("hooks that stay as they are: %v", err)
	}
	image := map[string]any{"hooks": map[string]any{"pre": map[string]any{"job": map[string]any{"template": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "sh", "image": "example.com/mine:1"}}}}}}}}
	expectForbidden(t, "another image in the hook of another user", policy, plain.patch("both", image), noJobs)
	if err := both.patch("both", image); err != nil {
		t.Errorf("another image by the author of the hook: %v", err)
	}
	if err := plain.patch("both", map[string]any{"hooks": nil}); err != nil {
		t.Errorf("hooks are taken out: %v", err)
	}
	if err := both.patch("both", map[string]any{"target": "other"}); !apierrors.IsInvalid(err) {
		t.Errorf("another target: %v", err)
	}
}

// TestAutoscalerScalesScaler: it needs only the right to the Scaler's scale, with which it can change nothing else.
func TestAutoscalerScalesScaler(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	author := userOf(t, w, "author", maintains, scalesAny, runsJobs)
	if err := author.create("web", scalerSpec("pre")); err != nil {
		t.Fatal(err)
	}
	autoscaler := userOf(t, w, "autoscaler", [2]string{"get patch update", "scalers/scale.drydock.dev"})
	if err := autoscaler.patch("web", map[string]any{"replicas": 4}, "scale"); err != nil {
		t.Fatal(err)
	}
	scaler, err := author.scalers.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(scaler.Object, "spec", "replicas"); n != 4 {
		t.Errorf("spec.replicas is %d", n)
	}
	if _, kept, _ := unstructured.NestedMap(scaler.Object, "spec", "hooks", "pre"); !kept {
		t.Error("the hook is lost")
	}
	if err := autoscaler.patch("web", map[string]any{"replicas": 5}); !apierrors.IsForbidden(err) {
		t.Errorf("the Scaler itself: %v", err)
	}
}

// TestTenantCannotForgeScaling: a user with all rights in a namespace may remove the record, but not write it.
func TestTenantCannotForgeScaling(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	write := func(value string, subresource ...string) error {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, api.ScaleAnnotation, value)
		_, err := client.AppsV1().StatefulSets(w.Namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(body),
			metav1.PatchOptions{},
			subresource...)
		return err
	}
	expectForbidden(t, "writing the record", recordsPolicy, write(`"{}"`))
	expectForbidden(t, "writing it with the status", recordsPolicy, write(`"{}"`, "status"))
	w.Annotate("web", map[string]string{api.ScaleAnnotation: "{}"})
	expectForbidden(t, "changing it", recordsPolicy, write(`"forged"`))
	if err := write("null"); err != nil {
		t.Errorf("removing it: %v", err)
	}
}

// TestAutoscalingScalerNeedsRightsOfItsAuthor: a user who may not create an autoscaler does not get one through a
// Scaler.
func TestAutoscalingScalerNeedsRightsOfItsAuthor(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	const policy, noAutoscaler = "drydock-scalers", "horizontalpodautoscalers" // the resource of the missing right
	modes := map[string]map[string]any{
		"hpa":  {"hpa": map[string]any{"maxReplicas": int64(3)}},
		"auto": {"auto": map[string]any{"min": int64(1), "max": int64(3)}},
	}
	moded := func(mode map[string]any) map[string]any {
		spec := scalerSpec()
		spec["mode"] = mode
		return spec
	}
	replaced := func(mode map[string]any) map[string]any {
		patch := map[string]any{"fixed": nil}
		maps.Copy(patch, mode)
		return patch
	}
	plain, author := userOf(t, w, "plain", maintains, scalesAny), userOf(t, w, "author", maintains, scalesAny, makesHPA)
	if err := plain.create("plain", moded(map[string]any{"fixed": int64(2)})); err != nil {
		t.Fatalf("mode fixed: %v", err)
	}
	for name, mode := range modes {
		expectForbidden(t, "created in mode "+name, policy, plain.create(name, moded(mode)), noAutoscaler)
		expectForbidden(t, "mode "+name+" comes later", policy, plain.patch("plain", map[string]any{"mode": replaced(mode)}), noAutoscaler)
		if err := author.create(name, moded(mode)); err != nil {
			t.Errorf("mode %s: %v", name, err)
		}
		if err := plain.patch(name, map[string]any{"conflictPolicy": "adopt"}); err != nil {
			t.Errorf("mode %s stays as it is: %v", name, err)
		}
	}
	maximum := map[string]any{"mode": map[string]any{"hpa": map[string]any{"maxReplicas": 9}}}
	expectForbidden(t, "another maximum", policy, plain.patch("hpa", maximum), noAutoscaler)
}

// scalerThefts are the thefts of Scalers.
var scalerThefts = []theft{
	{"change how many members a Scaler wants", func(s *thief) error { return s.patchScaler(`{"spec":{"replicas":4}}`) }, "scale"},
	{"pause a Scaler", func(s *thief) error { return s.patchScaler(`{"spec":{"paused":true}}`) }, ""},
	{"end the pause of a Scaler", func(s *thief) error {
		_, err := s.scalers().Patch(s.ctx, "paused", types.MergePatchType, []byte(`{"spec":{"paused":false}}`),
			metav1.PatchOptions{DryRun: dry})
		return err
	}, ""},
	{"change the mode, a hook, a deadline or an annotation of a Scaler", func(s *thief) error {
		var refused error
		for _, body := range []string{
			`{"spec":{"mode":{"fixed":4}}}`, `{"spec":{"hooks":{"pre":{"http":{"url":"http://example.com"}}}}}`,
			`{"spec":{"deadlines":{"pre":"1s"}}}`,
			`{"spec":{"conflictPolicy":"adopt"}}`, `{"metadata":{"annotations":{"drydock.dev/retry":""}}}`,
			`{"metadata":{"finalizers":["example.com/x"]}}`,
		} {
			if refused = s.patchScaler(body); refused == nil {
				return nil
			}
		}
		return refused
	}, ""},
	{"delete a Scaler", func(s *thief) error {
		return s.scalers().Delete(s.ctx, "owned", metav1.DeleteOptions{DryRun: dry})
	}, ""},
}

func (s *thief) scalers() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(s.config).Resource(v1alpha1.GroupVersion.WithResource("scalers")).Namespace(s.w.Namespace)
}

// patchScaler changes a Scaler with two members.
func (s *thief) patchScaler(body string) error {
	_, err := s.scalers().Patch(s.ctx, "owned", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
	return err
}
