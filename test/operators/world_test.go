//go:build cluster

package operators

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// world is a namespace with an operator that runs, and its resource, whose StatefulSet is ready.
type world struct {
	*kit.World
	t        *testing.T
	kind     kind
	row      owners.Row
	operator *process
	drive    *kit.Drive
	restarts *restarts
}

// newWorld makes a namespace that lets Drydock pause its owners. The volumes are of the class.
func newWorld(t *testing.T, k kind, class string) *world {
	t.Helper()
	w := &world{World: kit.NewWorld(t), t: t, kind: k}
	if k.hasRow {
		w.row = rowOf(t, k)
	}
	if isPlayed(k) {
		w.DefineKind(w.row, k.name)
	} else {
		k.operator.install(w)
		w.awaitKinds()
	}
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToUpdate))
	for _, label := range []string{api.RootMoverLabel, api.NodeAccessLabel} {
		w.LabelNamespace(label, api.AllowValue)
	}
	if k.hasRow {
		w.GrantPause(w.row.Operator)
	}
	if name := k.operator.needsPod; name != "" {
		w.createPod(name)
	}
	w.operator = k.operator.run(t, w.Namespace, w.Config)
	w.create(class)
	w.awaitReady()
	w.annotatePods()
	w.restarts = w.watchRestarts()
	w.drive = w.Drive(nil)
	return w
}

// awaitKinds waits until the API server serves every kind of the operator, because some operators look for them only once.
func (w *world) awaitKinds() {
	w.t.Helper()
	for _, k := range kinds {
		if k.operator == w.kind.operator {
			w.Eventually(k.name+" is served", func() string {
				_, err := dynamic.NewForConfigOrDie(w.Config).Resource(k.resource).Namespace(w.Namespace).List(context.Background(),
					metav1.ListOptions{})
				return textOf(err)
			})
		}
	}
}

// newManagedWorld is newWorld with a StatefulSet that has opted in.
func newManagedWorld(t *testing.T, k kind, class string) *world {
	t.Helper()
	w := newWorld(t, k, class)
	w.optIn()
	return w
}

func rowOf(t *testing.T, k kind) owners.Row {
	t.Helper()
	row, ok := owners.BuiltIn().Find(k.resource.Group, k.name)
	if !ok {
		t.Fatalf("no row about %s of %s", k.name, k.resource.Group)
	}
	return row
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// createPod creates the pod in which the operator believes to run.
func (w *world) createPod(name string) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "example.com/operator:1"}}}}
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) resources() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(w.Config).Resource(w.kind.resource).Namespace(w.Namespace)
}

// create creates the objects of the kind's file: its resource, and what this one needs.
func (w *world) create(class string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", w.kind.name+".yaml"))
	w.must(err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.ReplaceAll(text, []byte("CLASS"), []byte(class))), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if err == io.EOF {
			break
		}
		w.must(err)
		resources := w.resources()
		if object.GetAPIVersion() == "v1" {
			plural := corev1.SchemeGroupVersion.WithResource(strings.ToLower(object.GetKind()) + "s")
			resources = dynamic.NewForConfigOrDie(w.Config).Resource(plural).Namespace(w.Namespace)
		}
		if w.row.OptIn == owners.OptInCreation && object.GetKind() == w.kind.name {
			labels := object.GetLabels()
			labels[api.ManagedLabel] = "true"
			object.SetLabels(labels)
		}
		_, err = resources.Create(context.Background(), object, metav1.CreateOptions{})
		w.must(err)
	}
	w.t.Cleanup(w.removeResource)
}

// removeResource deletes the resource, whose operator's finalizers would keep the namespace.
func (w *world) removeResource() {
	_ = w.resources().Delete(context.Background(), "main", metav1.DeleteOptions{})
	_, _ = w.resources().Patch(context.Background(), "main", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// resource reads the custom resource. It returns nil if the resource does not exist.
func (w *world) resource() *unstructured.Unstructured {
	w.t.Helper()
	object, err := w.resources().Get(context.Background(), "main", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return object
}

// patchResource changes the custom resource, as its user does, by a JSON Patch.
func (w *world) patchResource(patch string) {
	w.t.Helper()
	_, err := w.resources().Patch(context.Background(), "main", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

// setSize writes the size of the volumes into the custom resource, as its user does.
func (w *world) setSize(size string) {
	w.t.Helper()
	w.patchResource(fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, w.kind.size, size))
}

// content returns the parts of the custom resource that its user writes.
func (w *world) content() map[string]any {
	w.t.Helper()
	return w.kind.contentOf(w.resource())
}

func (k kind) contentOf(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return k.notes != "" && strings.HasPrefix(key, k.notes) })
	return map[string]any{"labels": o.GetLabels(), "annotations": annotations, "spec": o.Object["spec"]}
}

// contentAfter returns the content that the resource has after its user's JSON Patch, without writing it.
func (w *world) contentAfter(patch string) map[string]any {
	w.t.Helper()
	o, err := w.resources().Patch(context.Background(), "main", types.JSONPatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	w.must(err)
	return w.kind.contentOf(o)
}

// set reads the StatefulSet. It returns nil if the set does not exist.
func (w *world) set() *appsv1.StatefulSet {
	w.t.Helper()
	return w.Set(w.kind.set)
}

// ready returns an empty text if the StatefulSet has its replicas, and they are ready and of its newest revision.
func (w *world) ready() string {
	w.t.Helper()
	set := w.set()
	switch {
	case set == nil:
		return "there is no StatefulSet"
	case *set.Spec.Replicas != w.kind.replicas:
		return fmt.Sprintf("%d replicas, want %d", *set.Spec.Replicas, w.kind.replicas)
	case set.Status.ObservedGeneration < set.Generation, set.Status.ReadyReplicas != w.kind.replicas,
		set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && set.Status.UpdateRevision != set.Status.CurrentRevision:
		return fmt.Sprintf("%d of %d replicas are ready", set.Status.ReadyReplicas, w.kind.replicas)
	}
	return ""
}

func (w *world) awaitReady() {
	w.t.Helper()
	w.Eventually("the StatefulSet is ready", w.ready)
}

// annotatePods plays a process that reports to its operator by annotations of its pod.
func (w *world) annotatePods() {
	w.t.Helper()
	for i := range w.kind.replicas {
		for key, value := range w.kind.podAnnotations {
			_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), fmt.Sprintf("%s-%d", w.kind.set, i), types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value), metav1.PatchOptions{})
			w.must(err)
		}
	}
}

// optIn writes the label drydock.dev/managed where the table says that it lasts, and waits until the StatefulSet has it.
func (w *world) optIn() {
	w.t.Helper()
	switch {
	case w.row.OptIn == owners.OptInCreation: // create has written it
	case w.row.OnResource():
		w.patchResource(`[{"op":"add","path":"/metadata/labels/drydock.dev~1managed","value":"true"}]`)
	default:
		w.PatchSet(w.kind.set, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, api.ManagedLabel))
	}
	w.Eventually("the StatefulSet has opted in", w.managed)
	w.awaitReady()
}

// managed returns an empty text if the StatefulSet has opted in.
func (w *world) managed() string {
	w.t.Helper()
	if set := w.set(); set == nil || set.Labels[api.ManagedLabel] != "true" {
		return "the StatefulSet has no label " + api.ManagedLabel
	}
	return ""
}

// tick sweeps once. It returns the text of an error.
func (w *world) tick() string {
	return textOf(w.drive.Tick(context.Background()))
}

// becomes ticks until the check returns an empty text.
func (w *world) becomes(what string, check func() string) {
	w.t.Helper()
	w.Eventually(what, func() string {
		if failed := w.tick(); failed != "" {
			return failed
		}
		return check()
	})
}

// stays ticks for the duration. The check must always return an empty text.
func (w *world) stays(what string, d time.Duration, check func() string) {
	w.t.Helper()
	w.Throughout(what, d, func() string {
		if failed := w.tick(); failed != "" {
			return failed
		}
		return check()
	})
}

// asWritten returns the difference between the resource and the content that its user gave it.
func (w *world) asWritten(want map[string]any) string {
	w.t.Helper()
	return cmp.Diff(want, w.content())
}

// restarts notes the pods of the StatefulSet, by name.
type restarts struct {
	mu   sync.Mutex
	uids map[string][]types.UID
}

// watchRestarts notes every pod of the StatefulSet until the test ends.
func (w *world) watchRestarts() *restarts {
	w.t.Helper()
	r := &restarts{uids: map[string][]types.UID{}}
	watch, err := w.Kube.CoreV1().Pods(w.Namespace).Watch(context.Background(), metav1.ListOptions{})
	w.must(err)
	w.t.Cleanup(watch.Stop)
	go func() {
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				r.note(w.kind.set, pod)
			}
		}
	}()
	return r
}

// note notes a pod of the set.
func (r *restarts) note(set string, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ordinal, ok := strings.CutPrefix(pod.Name, set+"-")
	if ok && strings.Trim(ordinal, "0123456789") == "" && !slices.Contains(r.uids[pod.Name], pod.UID) {
		r.uids[pod.Name] = append(r.uids[pod.Name], pod.UID)
	}
}

// String returns how often each pod has been replaced.
func (r *restarts) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for name, uids := range r.uids {
		all = append(all, fmt.Sprintf("%s: %d", name, len(uids)-1))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// identity returns the UIDs of the StatefulSet and of its pods.
func (w *world) identity() string {
	w.t.Helper()
	set := w.set()
	if set == nil {
		return "no StatefulSet"
	}
	text := "StatefulSet " + string(set.UID)
	for i := range w.kind.replicas {
		name := fmt.Sprintf("%s-%d", w.kind.set, i)
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return text + ", " + err.Error()
		}
		text += fmt.Sprintf(", %s %s", name, pod.UID)
	}
	return text
}

// claims returns the names of the StatefulSet's claims.
func (w *world) claims() []string {
	var names []string
	for i := range w.kind.replicas {
		names = append(names, fmt.Sprintf("%s-%s-%d", w.kind.template, w.kind.set, i))
	}
	return names
}
