package swarm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/history"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"drydock.dev/test/kit/apiserver"
)

// setController runs the code of Kubernetes' StatefulSet controller. Its caches hold the objects of the last call of look.
type setController struct {
	client                       kubernetes.Interface
	control                      statefulset.StatefulSetControlInterface
	sets, pods, claims, revision cache.Indexer
	decoded                      map[*apiserver.Object]any // the objects in the caches
}

var controllerOfSets = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}

func newSetController(config *rest.Config) *setController {
	client := kubernetes.NewForConfigOrDie(config)
	index := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	c := &setController{client: client, sets: index(), pods: index(), claims: index(), revision: index()}
	events := &record.FakeRecorder{}
	c.control = statefulset.NewDefaultStatefulSetControl(
		statefulset.NewStatefulPodControl(client, corelisters.NewPodLister(c.pods), corelisters.NewPersistentVolumeClaimLister(c.claims), events),
		statefulset.NewRealStatefulSetStatusUpdater(client, appslisters.NewStatefulSetLister(c.sets)),
		history.NewHistory(client, appslisters.NewControllerRevisionLister(c.revision)))
	return c
}

// look fills the caches with the present objects of the server.
func (c *setController) look(s *apiserver.Server) {
	before := c.decoded
	c.decoded = map[*apiserver.Object]any{}
	fill[appsv1.StatefulSet](c, c.sets, s.List("statefulsets"), before)
	fill[corev1.Pod](c, c.pods, s.List("pods"), before)
	fill[corev1.PersistentVolumeClaim](c, c.claims, s.List("persistentvolumeclaims"), before)
	fill[appsv1.ControllerRevision](c, c.revision, s.List("controllerrevisions"), before)
}

func fill[T any](c *setController, into cache.Indexer, objects []*apiserver.Object, before map[*apiserver.Object]any) {
	all := make([]any, len(objects))
	for i, o := range objects {
		if all[i] = before[o]; all[i] == nil {
			all[i] = apiserver.Decode[T](o)
		}
		c.decoded[o] = all[i]
	}
	if err := into.Replace(all, ""); err != nil {
		panic(err)
	}
}

// sync lets the controller work on each StatefulSet once. It returns the controller's errors, after which it would try again.
func (c *setController) sync(now metav1.Time) []error {
	var failures []error
	keys := c.sets.ListKeys()
	slices.Sort(keys)
	for _, key := range keys {
		o, _, _ := c.sets.GetByKey(key)
		set := o.(*appsv1.StatefulSet).DeepCopy()
		if err := c.syncSet(set, now); err != nil {
			failures = append(failures, fmt.Errorf("StatefulSet %s: %w", set.Name, err))
		}
	}
	return failures
}

// syncSet takes the steps of the controller for one StatefulSet (kubernetes pkg/controller/statefulset/stateful_set.go, sync).
func (c *setController) syncSet(set *appsv1.StatefulSet, now metav1.Time) error {
	ctx := context.Background()
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return err
	}
	revisions, err := c.control.ListRevisions(set)
	if err != nil {
		return err
	}
	owned := func(r *appsv1.ControllerRevision) bool { return metav1.GetControllerOf(r) != nil }
	if orphans := slices.DeleteFunc(revisions, owned); len(orphans) > 0 {
		if err := c.control.AdoptOrphanRevisions(set, orphans); err != nil {
			return err
		}
	}
	var pods []*corev1.Pod
	for _, o := range c.pods.List() {
		pod := o.(*corev1.Pod)
		if owner := metav1.GetControllerOf(pod); pod.Namespace == set.Namespace && (owner == nil || owner.UID == set.UID) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	fresh := func(ctx context.Context) (metav1.Object, error) {
		return c.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	}
	manager := controller.NewPodControllerRefManager(controller.RealPodControl{KubeClient: c.client, Recorder: &record.FakeRecorder{}}, set,
		selector, controllerOfSets, controller.RecheckDeletionTimestamp(fresh))
	member := func(pod *corev1.Pod) bool {
		_, is := ordinalOf(set.Name, pod.Name)
		return is
	}
	if pods, err = manager.ClaimPods(ctx, pods, member); err != nil {
		return err
	}
	_, err = c.control.UpdateStatefulSet(ctx, set, pods, now.Time)
	return err
}

// ordinalOf returns the ordinal in the name of a pod of the StatefulSet.
func ordinalOf(set, pod string) (int, bool) {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(pod, set+"-"))
	return ordinal, err == nil && pod == podName(set, ordinal)
}

// syncSets lets the StatefulSet controller see the present state and work on each set.
func (w *World) syncSets() {
	w.sets.look(w.server)
	for _, err := range w.sets.sync(metav1.Now()) {
		w.tell("  statefulset-controller: %v", err)
	}
}

// collect plays the garbage collector: dependents without an owner go, and an orphaning deletion removes the references to its object.
func (w *World) collect() {
	alive := map[string]bool{}
	resources := []string{"statefulsets", "pods", "persistentvolumeclaims", "jobs", "controllerrevisions", "horizontalpodautoscalers"}
	for _, resource := range append([]string{"scalers"}, append(ownerResources, resources...)...) {
		for _, o := range w.server.List(resource) {
			alive[string(o.GetUID())] = true
		}
	}
	for _, resource := range resources {
		for _, o := range w.server.List(resource) {
			refs := o.GetOwnerReferences()
			dead := len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return alive[string(r.UID)] })
			if dead && o.GetDeletionTimestamp() == nil {
				w.remove(collector, keyOf(resource, o), metav1.DeleteOptions{})
			}
		}
	}
	for _, set := range w.server.List("statefulsets") {
		if !slices.Contains(set.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			continue
		}
		for _, resource := range resources {
			for _, o := range w.server.List(resource) {
				w.change(collector, keyOf(resource, o), "", func(o *apiserver.Object) {
					if refs := o.GetOwnerReferences(); len(refs) > 0 {
						o.SetOwnerReferences(slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == set.GetUID() }))
					}
				})
			}
		}
		w.change(collector, keyOf("statefulsets", set), "", func(o *apiserver.Object) { dropFinalizer(o, metav1.FinalizerOrphanDependents) })
	}
}

// runJobs plays the Job controller: it creates a pod for each Job, and judges the pods of movers.
func (w *World) runJobs() {
	for _, job := range w.server.List("jobs") {
		switch pods := w.podsOf(job); {
		case job.GetDeletionTimestamp() != nil || isOver(job):
		case len(pods) == 0:
			w.createJobPod(job)
		case isMover(pods[0]):
			w.syncMover(job)
		}
	}
	for _, pod := range w.server.List("pods") {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" && (hasEnded(pod) || pod.GetDeletionTimestamp() != nil) {
			w.change(jobController, keyOf("pods", pod), "", func(o *apiserver.Object) { dropFinalizer(o, batchv1.JobTrackingFinalizer) })
		}
	}
}

func (w *World) podsOf(job *apiserver.Object) []*apiserver.Object {
	return slices.DeleteFunc(w.server.List("pods"), func(pod *apiserver.Object) bool { return !metav1.IsControlledBy(pod, job) })
}

// isOver reports whether the Job has a condition, which is Complete or Failed.
func isOver(job *apiserver.Object) bool {
	status, _ := job.Object["status"].(map[string]any)
	return status["conditions"] != nil
}

// endJobs ends the pods of all hooks that run, and then their Jobs.
func (w *World) endJobs(succeed bool) {
	for _, job := range w.server.List("jobs") {
		if job.GetDeletionTimestamp() != nil || isOver(job) {
			continue
		}
		running := slices.DeleteFunc(w.podsOf(job), func(pod *apiserver.Object) bool {
			return isMover(pod) || textOf(pod, "status", "phase") != "Running"
		})
		for _, pod := range running {
			w.endPod(pod, succeed)
		}
		if len(running) > 0 {
			w.endJob(job, succeed)
		}
	}
}

func (w *World) endJob(job *apiserver.Object, succeed bool) {
	w.change(jobController, keyOf("jobs", job), "status", func(o *apiserver.Object) {
		end := condition(string(batchv1.JobComplete), "True")
		if succeed {
			put(o, int64(1), "status", "succeeded")
			put(o, now(), "status", "completionTime")
		} else {
			end = condition(string(batchv1.JobFailed), "True")
			end["reason"], end["message"] = batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
		}
		put(o, []any{end}, "status", "conditions")
	})
}

var jobController = apiserver.Client{User: "system:serviceaccount:kube-system:job-controller", Manager: controllerManager}
