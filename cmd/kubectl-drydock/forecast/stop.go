package forecast

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Stop tells for how long members would be stopped. From and To are estimates from observations (Basis) and assumptions (Assumed); Besides
// comes on top of both.
type Stop struct {
	// None: no member is stopped.
	None bool `json:"none"`
	// Together: the members stop at once, and From and To are about all of them. Else they are about each member.
	Together bool `json:"together"`
	// Members is how many members are stopped.
	Members int `json:"members"`
	// From and To are seconds, To where everything takes as long as it may.
	From int64 `json:"fromSeconds"`
	To   int64 `json:"toSeconds"`
	// Basis are observations.
	Basis []string `json:"basis,omitempty"`
	// Assumed are assumptions.
	Assumed []string `json:"assumed,omitempty"`
	// Besides are parts that the estimate leaves out.
	Besides []string `json:"besides,omitempty"`
}

// Rate is how many bytes of a claim are assumed to be copied and verified in a second.
const Rate = 100e6

// stop has the facts for an estimate of the time of a stop.
type stop struct {
	// members are stopped; together if the strategy is whole.
	members  int
	together bool
	// ordered: one member stops, and starts, after the other.
	ordered bool
	grace   time.Duration
	// start is how long the pod took to become ready; no pod is known to have.
	start time.Duration
	pod   string
	// limit is the longest forecast of a final pass that still lets a member stop; 0 means any.
	limit time.Duration
	// cold are the claims that have no first pass.
	cold []Claim
	// warm claims have first passes.
	warm int
	// grows: the claims grow on their volumes meanwhile.
	grows    bool
	parallel int
}

// stopOf estimates the stop of the members that would be moved.
func (f *Forecast) stopOf(members []Member, claims []Claim) Stop {
	s := stop{grows: f.record.GrowsHeld(), together: f.record.Strategy == api.StrategyWhole, ordered: statefulset.Ordered(f.in.Set), grace: statefulset.GracePeriod(f.in.Set),
		parallel: resources.Parallelism(f.in.Set, f.in.Settings)}
	s.limit, _ = api.MaxStop(f.in.Set, f.record.Strategy) // a mistake is refused
	s.pod, s.start = newestStart(f.in.Observed)
	cold := map[int]bool{}
	for _, m := range members {
		if m.Pod != "" {
			s.members++
		}
		cold[m.Ordinal] = m.Cold != ""
	}
	for _, c := range claims {
		_, ordinal, _ := statefulset.ParseClaimName(f.in.Set, c.Name)
		switch {
		case c.Method != api.MethodCopy:
		case cold[ordinal]:
			s.cold = append(s.cold, c)
		default:
			s.warm++
		}
	}
	return s.estimate()
}

// noStop is the estimate for claims that all grow on their volumes.
func (f *Forecast) noStop(claims []Claim) Stop {
	d := Stop{None: true}
	if len(claims) > 0 && statefulset.Replicas(f.in.Set) > 0 {
		d.Besides = append(d.Besides, fmt.Sprintf("storage that grows a file system only when it is mounted has one pod evicted at a time, %s "+
			"after its volume has grown",
			f.in.Settings.ExpandPatience))
	}
	return d
}

// estimate adds up a restart and the copies that are made while members are stopped.
func (s stop) estimate() Stop {
	d := Stop{None: s.members == 0, Together: s.together && s.members > 1, Members: s.members}
	var from, to time.Duration
	if s.members > 0 {
		from, to = s.restart(&d)
	}
	if len(s.cold) > 0 {
		least, most := s.copy(&d)
		from, to = from+least, to+most
	}
	to += s.finalPass(&d)
	switch {
	case s.members == 0:
		d.Besides = append(d.Besides, "no member has a pod: none can be started while its claims are copied, or grow")
	case s.grows:
		d.Besides = append(d.Besides, "detaching the volumes, growing them, and attaching them again")
	default:
		d.Besides = append(d.Besides, "putting the new volumes behind the claims: under a second")
	}
	d.From, d.To = seconds(from), seconds(to)
	return d
}

// finalPass returns how long the final pass over later changes may take.
func (s stop) finalPass(d *Stop) time.Duration {
	switch {
	case s.warm == 0 || s.members == 0:
		return 0
	case s.limit > 0:
		d.Assumed = append(d.Assumed, fmt.Sprintf("a final pass copies the changes since the first passes. A member is stopped only when "+
			"the mover forecasts less than %s (%s)",
			s.limit, api.MaxStopAnnotation))
		return s.limit
	}
	d.Besides = append(d.Besides, fmt.Sprintf("a final pass over the changes in %d claims after their first passes; %s limits it", s.warm,
		api.MaxStopAnnotation))
	return 0
}

// restart is one stop and one start: of one member, or of all.
func (s stop) restart(d *Stop) (from, to time.Duration) {
	times, how := 1, "one member at a time"
	switch {
	case s.members == 1:
		how = "one member"
	case s.together && s.ordered:
		times, how = s.members, fmt.Sprintf("%d members, which stop and start one after the other", s.members)
	case s.together:
		how = "all members at once"
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
func (s stop) copy(d *Stop) (least, most time.Duration) {
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
	d.Assumed = append(d.Assumed, fmt.Sprintf("%d claims are copied only while their member is stopped, each with %d MB/s, verified, and %d "+
		"at once",
		len(s.cold), int(Rate/1e6), s.parallel))
	if unmeasured > 0 {
		d.Assumed = append(d.Assumed, fmt.Sprintf("%d of them are empty, or full: how much they have is not measured", unmeasured))
	}
	return s.long(known), s.long(all)
}

// long is how long copies of so many bytes take: no less than the largest, and no less than all of them side by side.
func (s stop) long(bytes []int64) time.Duration {
	sum, largest := int64(0), int64(0)
	for _, n := range bytes {
		sum, largest = sum+n, max(largest, n)
	}
	if s.members > 0 && !s.together { // each member has its own stop
		sum = largest
	}
	most := max(float64(largest), float64(sum)/float64(max(s.parallel, 1)))
	return time.Duration(most / Rate * float64(time.Second))
}

// seconds rounds up: a plan had better have a second too much.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// newestStart is the newest pod of the set that became ready without a restart of its containers, and how long it took. A pod
// that was not ready for a while in between has taken less than that.
func newestStart(o *world.Observed) (string, time.Duration) {
	var newest *corev1.Pod
	var took time.Duration
	for _, pod := range o.Pods {
		ready := readySince(pod)
		if ready == nil || !statefulset.IsPodOf(pod, o.Set) || newest != nil && pod.CreationTimestamp.Before(&newest.CreationTimestamp) {
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
