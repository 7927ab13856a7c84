package forecast

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Downtime is for how long no replica of the set would run. From and To are estimates, made from what was observed (Basis) and
// what was not (Assumed); Besides comes on top of both.
type Downtime struct {
	// None: no replica is stopped.
	None bool `json:"none"`
	// From and To are seconds, To where everything takes as long as it may.
	From int64 `json:"fromSeconds"`
	To   int64 `json:"toSeconds"`
	// Basis is what was observed.
	Basis []string `json:"basis,omitempty"`
	// Assumed is what was not.
	Assumed []string `json:"assumed,omitempty"`
	// Besides is what the estimate leaves out.
	Besides []string `json:"besides,omitempty"`
}

// Rate is how many bytes of a claim are assumed to be copied and verified in a second.
const Rate = 100e6

// stop is what a downtime is estimated from.
type stop struct {
	replicas int32
	// ordered: one replica stops, and starts, after the other.
	ordered bool
	grace   time.Duration
	// start is how long the pod took to become ready; no pod is known to have.
	start time.Duration
	pod   string
	// cold are the claims that are copied only when the set is stopped.
	cold []Claim
	// warm claims have a first copy.
	warm     int
	parallel int
}

func (f *Forecast) downtime(claims []Claim) Downtime {
	if len(f.copied()) == 0 {
		return f.noDowntime(claims)
	}
	s := stop{replicas: sts.Replicas(f.in.Set), ordered: f.in.Set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		grace: sts.GracePeriod(f.in.Set), parallel: resources.Parallelism(f.in.Set, f.in.Settings)}
	s.pod, s.start = newestStart(f.in.Observed)
	for _, c := range claims {
		switch {
		case c.Method != api.MethodCopy:
		case c.Cold != "":
			s.cold = append(s.cold, c)
		default:
			s.warm++
		}
	}
	return s.estimate()
}

func (f *Forecast) noDowntime(claims []Claim) Downtime {
	d := Downtime{None: true}
	if len(claims) > 0 && sts.Replicas(f.in.Set) > 0 {
		d.Besides = append(d.Besides, fmt.Sprintf("storage that grows a file system only when it is mounted has one pod started again at a time, %s after its volume has grown",
			f.in.Settings.ExpandPatience))
	}
	return d
}

// estimate adds up one restart of the set and the copies that are made while it is stopped.
func (s stop) estimate() Downtime {
	d := Downtime{None: s.replicas == 0}
	var from, to time.Duration
	if s.replicas > 0 {
		from, to = s.restart(&d)
	}
	if len(s.cold) > 0 {
		least, most := s.copy(&d)
		from, to = from+least, to+most
	}
	if s.warm > 0 {
		d.Besides = append(d.Besides, fmt.Sprintf("copying what changes in %d claims after their first copy", s.warm))
	}
	d.Besides = append(d.Besides, "the start of the movers, and putting the new volumes behind the claims: seconds each")
	if s.replicas == 0 {
		d.Besides = append(d.Besides, "the set is at zero already: it cannot be started meanwhile")
	}
	d.From, d.To = seconds(from), seconds(to)
	return d
}

// restart is one stop and one start of all replicas.
func (s stop) restart(d *Downtime) (from, to time.Duration) {
	times, how := 1, "all replicas at once"
	if s.ordered && s.replicas > 1 {
		times, how = int(s.replicas), fmt.Sprintf("%d replicas, one after the other", s.replicas)
	}
	stopping := time.Duration(times) * s.grace
	d.Assumed = append(d.Assumed, fmt.Sprintf("%s: a pod ends at once, or takes all of its terminationGracePeriodSeconds (%s)", how, s.grace))
	if s.pod == "" {
		d.Besides = append(d.Besides, "how long the pods take to start: none of them is ready, so that is not known")
		return 0, stopping
	}
	d.Basis = append(d.Basis, fmt.Sprintf("pod %s, the newest, took %s from its creation until it was ready", s.pod, s.start))
	starting := time.Duration(times) * s.start
	return starting, starting + stopping
}

// copy is how long the claims take that nothing was copied of before.
func (s stop) copy(d *Downtime) (least, most time.Duration) {
	var known, all []int64
	unmeasured := 0
	for _, c := range s.cold {
		if c.Used != nil {
			known, all = append(known, *c.Used), append(all, *c.Used)
		} else {
			unmeasured++
			all = append(all, c.Capacity)
		}
	}
	d.Assumed = append(d.Assumed, fmt.Sprintf("%d claims are copied only while the set is stopped, each with %d MB/s, verified, and %d at once",
		len(s.cold), int(Rate/1e6), s.parallel))
	if unmeasured > 0 {
		d.Assumed = append(d.Assumed, fmt.Sprintf("%d of them are empty, or full: nobody says how much they have", unmeasured))
	}
	return s.long(known), s.long(all)
}

// long is how long copies of so many bytes take: no less than the largest, and no less than all of them side by side.
func (s stop) long(bytes []int64) time.Duration {
	sum, largest := int64(0), int64(0)
	for _, n := range bytes {
		sum, largest = sum+n, max(largest, n)
	}
	most := max(float64(largest), float64(sum)/float64(max(s.parallel, 1)))
	return time.Duration(most / Rate * float64(time.Second))
}

// seconds rounds up: who plans a stop had better have a second too much.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// newestStart is the newest pod of the set that became ready without a restart of its containers, and how long it took. A pod
// that was not ready for a while in between has taken less than that.
func newestStart(o *sts.Observed) (string, time.Duration) {
	var newest *corev1.Pod
	var took time.Duration
	for _, pod := range o.Pods {
		ready := readySince(pod)
		if ready == nil || !sts.IsPodOf(pod, o.Set) || newest != nil && pod.CreationTimestamp.Before(&newest.CreationTimestamp) {
			continue
		}
		newest, took = pod, max(0, ready.LastTransitionTime.Sub(pod.CreationTimestamp.Time))
	}
	if newest == nil {
		return "", 0
	}
	return newest.Name, took
}

// readySince is the condition of a pod that is ready and whose containers run for the first time; nil for others.
func readySince(pod *corev1.Pod) *corev1.PodCondition {
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return nil
		}
	}
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
