package backup

import (
	"context"
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/world"
)

// Input is what Decide decides on.
type Input struct {
	*world.Observed
	Settings   api.Settings
	RootMovers bool
	// Options are how movers run; OptionsErr is why the user's options cannot be read.
	Options    resources.MoverOptions
	OptionsErr error
	// Progress is the latest progress of running movers, by the ordinal of their member; Moved is its time.
	Progress map[int]moverreport.Progress
	Moved    map[int]time.Time
	// Warnings are the latest Warning Events about Jobs without a pod and pods that do not start, by the object's name.
	Warnings map[string]Warning
	// Unclaimed are the volumes of the cluster without a claim. They are read only before a temporary claim is created.
	Unclaimed []*corev1.PersistentVolume
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
}

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	observed, err := f.client.ObserveIf(ctx, ref, isTurn)
	if err != nil {
		return Input{}, err
	}
	in := Input{Observed: observed, Settings: f.settings, Progress: map[int]moverreport.Progress{}, Moved: map[int]time.Time{},
		Warnings: map[string]Warning{}}
	if !isTurn(observed) {
		return in, nil
	}
	record, _ := observed.Record() // isTurn has read it
	w := &work{Input: in, before: record, record: record}
	logs, cancel := context.WithTimeout(ctx, logsPatience)
	defer cancel()
	asks := false
	for i := range record.Members {
		member := &record.Members[i]
		m := w.moverOf(member)
		if m.pod != nil {
			f.observeProgress(logs, in, member, m.pod)
		}
		asks = asks || beforeSwap(member) && (m.job == nil || m.ended() || m.failed())
	}
	f.observeWarnings(ctx, w)
	if asks {
		err = f.observeOptions(ctx, ref.Namespace, &in)
	}
	if err == nil && lacksTarget(in, record) {
		in.Unclaimed, err = f.client.UnclaimedVolumes(ctx)
	}
	return in, err
}

// isTurn reports whether backup has work in the set's phase.
func isTurn(o *world.Observed) bool {
	record, err := o.Record()
	return err == nil && o.Set != nil && record != nil && record.Phase == api.Moving
}

// beforeSwap reports whether a mover may have to be made for the member.
func beforeSwap(member *api.Member) bool {
	switch member.Phase {
	case api.MemberPending, api.MemberCopying, api.MemberFinalPass:
		return true
	}
	return false
}

// observeOptions reads how movers are to run. That matters where one is made, and where one has failed.
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

// observeProgress reads the last line of a running mover's log, where it is needed. A line that cannot be read hides progress, and nothing
// else: the mover's report says whether the copy is whole. Only first passes have their figures in the record.
func (f *Function) observeProgress(ctx context.Context, in Input, member *api.Member, pod *corev1.Pod) {
	container := in.logOf(member, pod)
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

// logOf returns the container of the member's mover whose log tells its progress; empty if it is not to be read now. While a member is
// stopped, it is read only if the stop lasts long: a log costs time.
func (in Input) logOf(member *api.Member, pod *corev1.Pod) string {
	if !started(pod) || !in.lostSince(pod).IsZero() { // a node that is away would not answer
		return ""
	}
	limit := in.Settings.ProgressTimeout
	switch {
	case member.Phase == api.MemberCopying && in.progressDue(member) &&
		reportOf(pod.Status.InitContainerStatuses, moverreport.FirstContainer) == nil:
		return moverreport.FirstContainer
	case member.Phase == api.MemberFinalPass && member.Stopped != nil && limit > 0 &&
		in.Now.Sub(member.Stopped.Time) > min(noticeSilence, limit):
		return runningCopier(pod)
	}
	return ""
}

// runningCopier returns the container of the mover that copies now, or waits for its signal; empty if none runs.
func runningCopier(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Running != nil && (c.Name == moverreport.FirstContainer || c.Name == moverreport.FinalContainer) {
			return c.Name
		}
	}
	return ""
}

// The API server waits long for the kubelet of a node that hangs, or that it cannot reach. logPatience bounds the reading of one log, and
// logsPatience that of all in one look: members that are stopped wait for what the rest of the event does.
const (
	logPatience  = 3 * time.Second
	logsPatience = 2 * logPatience
)

// observeWarnings reads why Jobs have no pod and why pods do not start: the objects themselves do not tell that the API server
// refuses a pod or that a volume cannot be mounted. Without a stall, nothing is read. An unreadable Event is a missing detail only.
func (f *Function) observeWarnings(ctx context.Context, w *work) {
	for i := range w.record.Members {
		m := w.moverOf(&w.record.Members[i])
		if m.job == nil || m.ended() || m.job.DeletionTimestamp != nil {
			continue
		}
		var about metav1.Object
		switch {
		case m.pod == nil || ended(m.pod):
			about = m.job
		case m.pod.Status.Phase == corev1.PodPending && m.pod.Spec.NodeName != "" && !started(m.pod) &&
			w.Now.Sub(m.pod.CreationTimestamp.Time) > noticeStart:
			about = m.pod
		default:
			continue
		}
		if e, err := f.client.LastWarning(ctx, about.GetNamespace(), about.GetUID(), causes(about)...); err == nil && e != nil {
			w.Warnings[about.GetName()] = Warning{Reason: e.Reason, Message: e.Message, At: kube.HappenedAt(e)}
		}
	}
}

// causes are the reasons of the Events that say why the object cannot go on; all if it is a pod.
func causes(object metav1.Object) []string {
	if _, isJob := object.(*batchv1.Job); isJob {
		return []string{failedCreate}
	}
	return nil
}

// lastLine returns the last line of the container's log, and its time; nothing if the log cannot be read in time.
func (f *Function) lastLine(ctx context.Context, pod *corev1.Pod, container string) ([]byte, time.Time) {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	line, at, err := f.client.LastLogLine(ctx, pod.Namespace, pod.Name, container)
	if err != nil {
		return nil, time.Time{}
	}
	return line, at
}
