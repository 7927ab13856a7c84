package backup

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Input is what Decide decides on.
type Input struct {
	*sts.Observed
	Settings   api.Settings
	RootMovers bool
	// Options are how movers run; OptionsErr is why what people wrote about that cannot be read.
	Options    resources.MoverOptions
	OptionsErr error
	// Reports are what the movers said last, by the name of the claim they copy.
	Reports map[string]moverreport.Line
	// Moved is when a running mover last reported progress, by the name of the claim it copies.
	Moved map[string]time.Time
	// Warnings are the latest Warning Events about Jobs without a pod and pods that do not start, by the object's name.
	Warnings map[string]Warning
	// Unclaimed are the volumes of the cluster without a claim. They are read only before a temporary claim is created.
	Unclaimed []*corev1.PersistentVolume
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
}

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	observed, err := f.client.Observe(ctx, ref)
	if err != nil {
		return Input{}, err
	}
	in := Input{Observed: observed, Settings: f.settings, Reports: map[string]moverreport.Line{}, Moved: map[string]time.Time{}, Warnings: map[string]Warning{}}
	status, err := observed.Status()
	if err != nil || status == nil || status.Phase != api.Copying {
		return in, nil //nolint:nilerr // an unreadable status is Decide's to judge
	}
	movers := observed.Movers(status.Operation)
	slices.SortStableFunc(movers, func(a, b *corev1.Pod) int { // what the last one says counts
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, pod := range movers {
		link, _ := api.LoadLink(pod) // Movers returns linked pods only
		if link.Round == status.Round && status.Stopping != nil || link.Round == warmRound && status.Stopping == nil {
			f.observeReport(ctx, in, status, pod, link.Claim)
		}
	}
	f.observeWarnings(ctx, in, status)
	if in.RootMovers, err = f.client.RootMovers(ctx, ref.Namespace); err != nil {
		return in, err
	}
	config, err := f.client.MoverConfig(ctx, ref.Namespace)
	if err != nil {
		return in, err
	}
	if lacksTarget(in, status) {
		if in.Unclaimed, err = f.client.UnclaimedVolumes(ctx); err != nil {
			return in, err
		}
	}
	in.Options, in.OptionsErr = resources.MoverOptionsOf(observed.Set, config)
	return in, nil
}

// observeReport reads a mover's termination message or, while it runs and its progress may be written again, the last
// line of its log. A report that cannot be read is progress that nobody sees, nothing worse: whether a copy is whole
// is the Job's to say.
func (f *Function) observeReport(ctx context.Context, in Input, status *api.Resize, pod *corev1.Pod, claim string) {
	text := []byte(terminationMessage(pod))
	if len(text) == 0 {
		part := status.Claim(claim)
		if pod.Status.Phase != corev1.PodRunning || part == nil || !progressDue(in, part) {
			return
		}
		if !lostSince(pod).IsZero() {
			return // its node would not answer
		}
		line, at := f.lastLine(ctx, pod)
		if len(line) == 0 {
			return
		}
		text, in.Moved[claim] = line, at
	}
	if report, err := moverreport.ParseLine(text); err == nil {
		in.Reports[claim] = report
	}
}

func terminationMessage(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == resources.MoverContainer && c.State.Terminated != nil {
			return c.State.Terminated.Message
		}
	}
	return ""
}

// logPatience bounds the reading of a log: the API server waits long for the kubelet of a node that hangs.
const logPatience = 3 * time.Second

// observeWarnings reads why Jobs have no pod and why pods do not start: the objects themselves do not tell that the API server
// refuses a pod or that a volume cannot be mounted. Without a stall, nothing is read. An unreadable Event is a missing detail only.
func (f *Function) observeWarnings(ctx context.Context, in Input, status *api.Resize) {
	for _, job := range in.JobsOf(status.Operation) {
		if outcome(in, job) != "" || job.DeletionTimestamp != nil {
			continue
		}
		var about metav1.Object
		switch pod := livePod(in, job); {
		case pod == nil:
			about = job
		case pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != "" && in.Now.Sub(pod.CreationTimestamp.Time) > noticeStart:
			about = pod
		default:
			continue
		}
		if e, err := f.client.LastWarning(ctx, about.GetNamespace(), about.GetUID(), causes(about)...); err == nil && e != nil {
			in.Warnings[about.GetName()] = Warning{Reason: e.Reason, Message: e.Message, At: kube.HappenedAt(e)}
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

// lastLine reads what the mover said last, and when; nothing if that cannot be read in time.
func (f *Function) lastLine(ctx context.Context, pod *corev1.Pod) ([]byte, time.Time) {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	line, at, err := f.client.LastLogLine(ctx, pod.Namespace, pod.Name, resources.MoverContainer)
	if err != nil {
		return nil, time.Time{}
	}
	return line, at
}
