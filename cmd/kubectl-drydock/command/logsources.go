package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/logs"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Labels of the pods of functions, see deploy/standalone and Knative Serving.
const (
	knativeServiceLabel = "serving.knative.dev/service"
	nameLabel           = "app.kubernetes.io/name"
	componentLabel      = "app.kubernetes.io/component"
	standalone          = "standalone"
)

// functions returns the containers of the functions, and notes which functions have no pod.
func (r *logReading) functions(ctx context.Context, home string) []logs.Source {
	var sources []logs.Source
	oldest := map[api.Function]time.Time{} // of the pods of each function
	all := false                           // one process runs all functions
	err := r.eachPod(ctx, home, func(pod *corev1.Pod) {
		function := api.Function(pod.Labels[knativeServiceLabel])
		began := pod.CreationTimestamp.Time
		switch isStandalone := pod.Labels[nameLabel] == "drydock" && pod.Labels[componentLabel] == standalone; {
		case isStandalone:
			if !all || began.Before(oldest[standalone]) {
				oldest[standalone] = began
			}
			all = true
		case function == "":
			return
		default:
			if at, known := oldest[function]; !known || began.Before(at) {
				oldest[function] = began
			}
		}
		if r.functionsSince.IsZero() || began.Before(r.functionsSince) {
			r.functionsSince = began
		}
		sources = append(sources, sourcesOf(pod, logs.Function)...)
	})
	if err != nil {
		r.noteListing("functions", "pods", home, err)
		return nil
	}
	if all {
		r.noteYoung([]api.Function{"drydock-" + standalone}, oldest[standalone])
	} else {
		r.noteFunctions(home, oldest)
	}
	return sources
}

// noteFunctions notes which functions have no pod any more, and which ones have only newer pods.
func (r *logReading) noteFunctions(home string, oldest map[api.Function]time.Time) {
	var gone, young []api.Function
	var earliest time.Time // of the pods of young functions
	for _, function := range logs.Functions(r.scope.Kind) {
		switch began, found := oldest[function]; {
		case !found:
			gone = append(gone, function)
		case !r.from.IsZero() && began.After(r.from):
			young = append(young, function)
			if earliest.IsZero() || began.Before(earliest) {
				earliest = began
			}
		}
	}
	if len(gone) > 0 {
		r.note("No pod runs %s in namespace %s: scaled to zero, or not installed there. The cluster keeps no logs of deleted pods; if it has a "+
			"log store, search it for %s.", join(gone), home, r.scope.Operation)
	}
	if len(young) > 0 {
		r.noteYoung(young, earliest)
	}
}

// noteYoung notes that the pods of the functions are younger than the operation, if they are.
func (r *logReading) noteYoung(functions []api.Function, began time.Time) {
	if !r.from.IsZero() && began.After(r.from) {
		r.note("The pods of %s started at %s, after the operation. Lines of earlier pods are gone, except from a log store.", join(functions),
			began.UTC().Format(time.RFC3339))
	}
}

// movers returns the containers of the operation's movers, hooks and cleanup pods.
func (r *logReading) movers(ctx context.Context) []logs.Source {
	namespace, selector := r.scope.Namespace, api.OperationLabel+"="+r.scope.Operation
	var jobs []*batchv1.Job
	err := kube.Pages(ctx, r.client, plan.Jobs, namespace, selector, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if linkOf(&l.Items[i], r.scope) != nil {
				jobs = append(jobs, l.Items[i].DeepCopy())
			}
		}
	})
	if err != nil {
		r.noteListing("movers and hooks", "jobs", namespace, err)
	}
	var sources []logs.Source
	err = r.eachPod(ctx, namespace, func(pod *corev1.Pod) {
		if kind := kindOfPod(pod, jobs, r.scope); kind != "" {
			sources = append(sources, sourcesOf(pod, kind)...)
		}
	})
	switch {
	case err != nil:
		r.noteListing("movers, hooks and cleanup pods", "pods", namespace, err)
	case len(sources) == 0 && r.scope.MayHavePods():
		r.note("The operation has no pods in namespace %s any more: Drydock deletes them when it has ended. A log store may have their lines.",
			namespace)
	}
	return sources
}

// kindOfPod returns what the pod does in the operation. It is empty for all other pods, also for the set's own: their logs are the user's.
func kindOfPod(pod *corev1.Pod, jobs []*batchv1.Job, scope logs.Scope) logs.Kind {
	if link := linkOf(pod, scope); link != nil && link.Role == api.RoleCleaner {
		return logs.Cleanup
	}
	for _, job := range jobs {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		if statefulset.IsOfMover(job, job.Name, scope.Operation) {
			return logs.Mover
		}
		return logs.Hook
	}
	return ""
}

// linkOf returns the link of an object of the operation, or nil.
func linkOf(object metav1.Object, scope logs.Scope) *api.Link {
	link, err := api.LoadLink(object)
	if err != nil || link == nil || link.Operation != scope.Operation || link.Set.Name != scope.Set {
		return nil
	}
	return link
}

// sourcesOf returns the containers of the pod whose logs matter, and those before their last restart.
func sourcesOf(pod *corev1.Pod, kind logs.Kind) []logs.Source {
	var sources []logs.Source
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case kind == logs.Mover && !slices.Contains(logs.MoverContainers, status.Name):
			continue // injected
		case kind == logs.Function && status.Name == "queue-proxy":
			continue // Knative's
		}
		source := logs.Source{Kind: kind, Namespace: pod.Namespace, Pod: pod.Name, Container: status.Name}
		waits := status.State.Waiting != nil // its log is that of the container before the restart, if there was one
		if status.LastTerminationState.Terminated != nil && !waits {
			previous := source
			previous.Previous = true
			sources = append(sources, previous)
		}
		if !waits || status.RestartCount > 0 {
			sources = append(sources, source)
		}
	}
	return sources
}

// eachPod calls use with each pod of the namespace.
func (r *logReading) eachPod(ctx context.Context, namespace string, use func(*corev1.Pod)) error {
	return kube.Pages(ctx, r.client, plan.Pods, namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			use(&l.Items[i])
		}
	})
}

const (
	// maxLogLines is how many lines of a container are read, the newest ones.
	maxLogLines = 50_000
	// maxLogBytes is how many bytes of them are read.
	maxLogBytes = 32 << 20
)

// read reads the log of a container and keeps the lines of the operation.
func (r *logReading) read(ctx context.Context, source logs.Source) {
	body, err := r.openLog(ctx, source)
	switch {
	case ctx.Err() != nil:
		return
	case apierrors.IsForbidden(err):
		r.note("You may not read logs in namespace %s, so those of its pods are missing. Ask an administrator for the right to get pods/log "+
			"there, or for these logs.", source.Namespace)
		return
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return // the pod is gone, or the container has not started
	case err != nil:
		r.note("The log of %s cannot be read: %s.", source.Name(), r.words(err))
		return
	}
	defer body.Close() // nothing was written
	parser := logs.Parser{Scope: r.scope, Source: source}
	lines, size, err := eachLine(body, func(raw []byte) {
		if line, ok := parser.Parse(raw); ok {
			r.collected.Add(line, len(raw))
		}
	})
	switch {
	case err != nil && ctx.Err() == nil:
		r.note("The log of %s ended early: %s.", source.Name(), r.words(err))
	case lines >= maxLogLines:
		r.note("Only the last %d lines of %s were read. Use --since for a shorter time.", maxLogLines, source.Name())
	case size >= maxLogBytes:
		r.note("Only %d MiB of the log of %s were read, so its newest lines are missing. Use --since for a shorter time.", maxLogBytes>>20,
			source.Name())
	}
}

// openLog opens the log of a container, each line with the time of the container runtime.
func (r *logReading) openLog(ctx context.Context, source logs.Source) (io.ReadCloser, error) {
	request := r.raw.rest.Get().AbsPath(path.Join("/api/v1/namespaces", source.Namespace, "pods", source.Pod, "log")).
		Param("container", source.Container).Param("timestamps", "true").
		Param("tailLines", strconv.Itoa(maxLogLines)).Param("limitBytes", strconv.Itoa(maxLogBytes))
	if source.Previous {
		request = request.Param("previous", "true")
	}
	if !r.from.IsZero() {
		request = request.Param("sinceTime", r.from.UTC().Format(time.RFC3339))
	}
	return request.Stream(ctx)
}

// eachLine calls use with each line, without its end and at most logs.MaxLine bytes. It returns how many lines and bytes there were. The
// line is valid only during the call.
func eachLine(from io.Reader, use func([]byte)) (lines, size int, err error) {
	reader := bufio.NewReaderSize(from, logs.MaxLine)
	for {
		line, tooLong, err := reader.ReadLine()
		if len(line) > 0 {
			use(line)
		}
		size += len(line)
		for tooLong && err == nil {
			var rest []byte
			rest, tooLong, err = reader.ReadLine()
			size += len(rest)
		}
		switch {
		case errors.Is(err, io.EOF):
			return lines, size, nil
		case err != nil:
			return lines, size, err
		}
		lines, size = lines+1, size+1
	}
}
