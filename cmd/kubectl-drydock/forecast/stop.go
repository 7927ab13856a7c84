package forecast

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// stop has the facts for the estimate of a Stop.
type stop struct {
	// members is the number of members to stop. They stop together if the strategy is whole.
	members  int
	together bool
	// ordered says whether members of the set stop and start one after the other.
	ordered bool
	grace   time.Duration
	// start is the time that the pod took to become ready. pod is empty if no pod is ready.
	start time.Duration
	pod   string
	// limit is the longest forecast of a final pass that lets a member stop; 0 means no limit.
	limit time.Duration
	// withoutFirstPass are the claims that are copied only while their member is stopped.
	withoutFirstPass []Claim
	// withFirstPass is the number of claims that are first copied while their member runs.
	withFirstPass int
	// grows says whether the claims grow on their present volumes while their members are stopped.
	grows bool
	// parallel is the number of copies that may run at the same time.
	parallel int
}

// stopOf returns the estimate for the members that would be moved.
func (f *Forecast) stopOf(members []Member, claims []Claim) Stop {
	s := stop{grows: f.record.GrowsWhileStopped(), together: f.record.Strategy == api.StrategyWhole, ordered: statefulset.Ordered(f.in.Set),
		grace: statefulset.GracePeriod(f.in.Set), parallel: resources.Parallelism(f.in.Set, f.in.Settings)}
	s.limit, _ = api.MaxStop(f.in.Set, f.record.Strategy) // the preflight refuses an invalid value
	s.pod, s.start = newestStart(f.in.Observed)
	stopped := map[int]bool{} // whether the member is copied only while it is stopped
	for _, m := range members {
		if m.Pod != "" {
			s.members++
		}
		stopped[m.Ordinal] = m.NoFirstPass != ""
	}
	for _, c := range claims {
		_, ordinal, _ := statefulset.ParseClaimName(f.in.Set, c.Name)
		switch {
		case c.Method != api.MethodCopy:
		case stopped[ordinal]:
			s.withoutFirstPass = append(s.withoutFirstPass, c)
		default:
			s.withFirstPass++
		}
	}
	return s.estimate()
}

// noStop returns the estimate for claims that all grow while their members run.
func (f *Forecast) noStop(claims []Claim) Stop {
	d := Stop{None: true}
	if len(claims) > 0 && statefulset.Replicas(f.in.Set) > 0 {
		d.Excluded = append(d.Excluded, fmt.Sprintf("if the storage grows a file system only when it is mounted, one pod is evicted at a "+
			"time, %s after its volume has grown", f.in.Settings.ExpandPatience))
	}
	return d
}

// estimate adds up the restart and the copies that are made while members are stopped.
func (s stop) estimate() Stop {
	d := Stop{None: s.members == 0, Together: s.together && s.members > 1, Members: s.members}
	var from, to time.Duration
	if s.members > 0 {
		from, to = s.restart(&d)
	}
	if len(s.withoutFirstPass) > 0 {
		least, most := s.copy(&d)
		from, to = from+least, to+most
	}
	to += s.finalPass(&d)
	switch {
	case s.members == 0:
		d.Excluded = append(d.Excluded, "no member has a pod, and none can start while its claims are copied or grow")
	case s.grows:
		d.Excluded = append(d.Excluded, "the time to detach, grow and attach the volumes")
	default:
		d.Excluded = append(d.Excluded, "the swap of the volumes: less than a second")
	}
	d.From, d.To = seconds(from), seconds(to)
	return d
}

// finalPass returns the longest time of the final pass, as far as the set limits it.
func (s stop) finalPass(d *Stop) time.Duration {
	switch {
	case s.withFirstPass == 0 || s.members == 0:
		return 0
	}
	d.Excluded = append(d.Excluded, fmt.Sprintf("the whole copy, if a node refuses to mount a volume in a second pod (%s)",
		api.FirstPassAnnotation))
	switch {
	case s.limit > 0:
		d.Assumed = append(d.Assumed, fmt.Sprintf("a final pass copies the changes since the first passes. A member is stopped only when "+
			"the mover forecasts less than %s for it (%s)", s.limit, api.MaxStopAnnotation))
		return s.limit
	}
	d.Excluded = append(d.Excluded, fmt.Sprintf("a final pass over the changes since the first passes (claims: %d); %s limits it",
		s.withFirstPass, api.MaxStopAnnotation))
	return 0
}

// copy returns the shortest and longest time of the copies of claims without a first pass.
func (s stop) copy(d *Stop) (least, most time.Duration) {
	var known, all []int64
	unmeasured := 0
	for _, c := range s.withoutFirstPass {
		if c.Used != nil {
			known, all = append(known, *c.Used), append(all, *c.Used)
		} else {
			unmeasured++
			all = append(all, c.Capacity)
		}
	}
	d.Assumed = append(d.Assumed, fmt.Sprintf("claims copied only while their member is stopped: %d, %d at a time, each with %d MB/s "+
		"including verification", len(s.withoutFirstPass), s.parallel, int(resize.CopyRate/1e6)))
	if unmeasured > 0 {
		d.Assumed = append(d.Assumed, fmt.Sprintf("%d of them may be empty or full, because their usage is not measured", unmeasured))
	}
	return s.copyTime(known), s.copyTime(all)
}

// copyTime returns the time of copies with these bytes: at least that of the largest, and at least that of all copies in parallel.
func (s stop) copyTime(bytes []int64) time.Duration {
	sum, largest := int64(0), int64(0)
	for _, n := range bytes {
		sum, largest = sum+n, max(largest, n)
	}
	if s.members > 0 && !s.together { // each member has its own stop
		sum = largest
	}
	most := max(float64(largest), float64(sum)/float64(max(s.parallel, 1)))
	return time.Duration(most / resize.CopyRate * float64(time.Second))
}

// seconds returns the whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// restart returns the shortest and longest time of one stop and one start, of one member or of all members together.
func (s stop) restart(d *Stop) (from, to time.Duration) {
	times, members := 1, "one member at a time"
	switch {
	case s.members == 1:
		members = "one member"
	case s.together && s.ordered:
		times, members = s.members, fmt.Sprintf("%d members, which stop and start one after the other", s.members)
	case s.together:
		members = "all members together"
	}
	stopping := time.Duration(times) * s.grace
	d.Assumed = append(d.Assumed, fmt.Sprintf("%s: a pod ends at once, or uses its whole terminationGracePeriodSeconds (%s)", members,
		s.grace))
	if s.pod == "" {
		d.Excluded = append(d.Excluded, "the start of the pods: its time is unknown, because no pod is ready")
		return 0, stopping
	}
	d.Observed = append(d.Observed, fmt.Sprintf("the newest ready pod, %s, became ready %s after its creation", s.pod, s.start))
	starting := time.Duration(times) * s.start
	return starting, starting + stopping
}

// newestStart returns the newest ready pod of the set without restarted containers, and its time from creation to ready. The time is too
// long for a pod that was unready in between.
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

// readySince returns the Ready condition of a ready pod without restarted containers; nil for other pods.
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
