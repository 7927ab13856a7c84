// Package backup copies the claims of each member to new volumes. First passes run beside the member's pod until they converge. The final
// pass runs after restore has stopped the member. Every copy is verified.
//
//	in    owner.paused, member.changed; StatefulSets, Jobs, Pods of an operation; the tick
//	get   StatefulSet, claims, volumes, pods with the movers' reports, Jobs
//	do    create journal, temporary claims and Jobs; patch claims and volumes (link, Retain), and the movers' pods (lease, signal);
//	      delete Jobs
//	out   backup.completed
//	never writes to the data of a source: it is mounted read-only; its claim and volume only get a link and the reclaim policy Retain
package backup

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Function is the function backup.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.Backup, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run twice at once. If the API server rejects a write for good, for example because of a
// quota, the operation is reverted: a retry would be rejected, too.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Rejected = fault.Text(failures.Rejected().Err)
		return Decide(in), nil
	})
}

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	observed, err := f.client.ObserveIf(ctx, ref, hasWork)
	if err != nil {
		return Input{}, err
	}
	in := Input{Input: moving.Input{Observed: observed, Settings: f.settings}, Progress: map[int]moverreport.Progress{},
		Moved: map[int]time.Time{}, Warnings: map[string]Warning{}}
	if !hasWork(observed) {
		return in, nil
	}
	record, _ := observed.Record() // hasWork has checked the error
	w := &work{Input: in, Work: moving.Work{Before: record, Record: record}}
	logs, cancel := context.WithTimeout(ctx, allLogsTimeout)
	defer cancel()
	needsOptions := false
	for i := range record.Members {
		member := &record.Members[i]
		m := w.moverOf(member)
		if m.pod != nil {
			f.observeProgress(logs, in, member, m.pod)
		}
		needsOptions = needsOptions || mayNeedMover(member) && (m.job == nil || m.ended() || m.failed())
	}
	f.observeWarnings(ctx, w)
	if needsOptions {
		err = f.observeOptions(ctx, ref.Namespace, &in)
	}
	if err == nil && needsTarget(in, record) {
		in.Unclaimed, err = f.client.UnclaimedVolumes(ctx)
	}
	return in, err
}

// hasWork reports whether backup has work in the set's phase. While restore replaces the set, it has none.
func hasWork(o *world.Observed) bool {
	if o.Set == nil || o.Set.DeletionTimestamp != nil {
		return false
	}
	record, err := o.Record()
	return err == nil && record != nil && record.Phase == api.Moving && record.Set.UID != ""
}

// mayNeedMover reports whether a mover may have to be created for the member.
func mayNeedMover(member *api.Member) bool {
	switch member.Phase {
	case api.MemberPending, api.MemberCopying, api.MemberFinalPass:
		return true
	}
	return false
}

// observeOptions reads the options of movers. They are needed to create a mover, and to explain a failed one.
func (f *Function) observeOptions(ctx context.Context, namespace string, in *Input) error {
	var err error
	if in.RootMovers, err = f.client.RootMovers(ctx, namespace); err != nil {
		return err
	}
	config, err := f.client.MoverConfig(ctx, namespace)
	if err != nil {
		return err
	}
	in.Options, in.OptionsErr = resources.MoverOptionsOf(in.Set, config)
	return nil
}

// observeProgress reads the last line of a running mover's log, if it is needed. An unreadable line only hides progress: the mover's report
// says whether the copy is complete. The record has the figures of first passes only.
func (f *Function) observeProgress(ctx context.Context, in Input, member *api.Member, pod *corev1.Pod) {
	container := in.progressContainer(member, pod)
	if container == "" {
		return
	}
	line, at := f.lastLine(ctx, pod, container)
	progress := moverreport.Progress{}
	if json.Unmarshal(line, &progress) != nil {
		return
	}
	in.Moved[member.Ordinal] = at
	if member.Phase == api.MemberCopying {
		in.Progress[member.Ordinal] = progress
	}
}

// progressContainer returns the mover's container whose log shows the progress. It is empty if the log is not to be read now. While a
// member is stopped, the log is read only in a long stop, because reading it prolongs the stop.
func (in Input) progressContainer(member *api.Member, pod *corev1.Pod) string {
	if !hasStarted(pod) || !in.nodeLostSince(pod).IsZero() { // a lost node would not answer
		return ""
	}
	limit := in.Settings.ProgressTimeout
	switch {
	case member.Phase == api.MemberCopying && in.progressDue(member) &&
		reportOf(pod.Status.InitContainerStatuses, moverreport.FirstContainer) == nil:
		return moverreport.FirstContainer
	case member.Phase == api.MemberFinalPass && member.StoppedAt != nil && limit > 0 &&
		in.Now.Sub(member.StoppedAt.Time) > min(showSilenceAfter, limit):
		return runningCopier(pod)
	}
	return ""
}

// runningCopier returns the mover's container that copies now or waits for its signal. It is empty if none runs.
func runningCopier(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Running != nil && (c.Name == moverreport.FirstContainer || c.Name == moverreport.FinalContainer) {
			return c.Name
		}
	}
	return ""
}

// The API server waits long for the kubelet of a node that hangs or is unreachable. oneLogTimeout bounds the reading of one log, and
// allLogsTimeout that of all logs in one observation: stopped members wait for the other actions of the event.
const (
	oneLogTimeout  = 3 * time.Second
	allLogsTimeout = 2 * oneLogTimeout
)

// observeWarnings reads why Jobs have no pod and why pods do not start. The objects themselves do not show that the API server rejects a
// pod or that a volume cannot be mounted. Without a stall, nothing is read. An unreadable Event is only a missing detail.
func (f *Function) observeWarnings(ctx context.Context, w *work) {
	for i := range w.Record.Members {
		m := w.moverOf(&w.Record.Members[i])
		if m.job == nil || m.ended() || m.job.DeletionTimestamp != nil {
			continue
		}
		var stalled metav1.Object
		switch {
		case m.pod == nil || statefulset.Done(m.pod):
			stalled = m.job
		case m.pod.Status.Phase == corev1.PodPending && m.pod.Spec.NodeName != "" && !hasStarted(m.pod) &&
			w.Now.Sub(m.pod.CreationTimestamp.Time) > showStartAfter:
			stalled = m.pod
		default:
			continue
		}
		if e, err := f.client.LastWarning(ctx, stalled.GetNamespace(), stalled.GetUID(), warningReasons(stalled)...); err == nil && e != nil {
			w.Warnings[stalled.GetName()] = Warning{Reason: e.Reason, Message: e.Message, At: kube.HappenedAt(e)}
		}
	}
}

// warningReasons returns the reasons of the Events that explain a stall of the object. It is empty, which means all reasons, for a pod.
func warningReasons(object metav1.Object) []string {
	if _, isJob := object.(*batchv1.Job); isJob {
		return []string{failedCreate}
	}
	return nil
}

// lastLine returns the last line of the container's log and its time. Both are empty if the log cannot be read in time.
func (f *Function) lastLine(ctx context.Context, pod *corev1.Pod, container string) ([]byte, time.Time) {
	ctx, cancel := context.WithTimeout(ctx, oneLogTimeout)
	defer cancel()
	line, at, err := f.client.LastLogLine(ctx, pod.Namespace, pod.Name, container)
	if err != nil {
		return nil, time.Time{}
	}
	return line, at
}
