package world_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// stopped returns pod web-0, held and stopped, changed by the options.
func stopped(options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", 0, "data"), append([]build.Option{build.Held(0), build.Stopped()}, options...)...)
}

func pod(change func(*corev1.Pod)) build.Option { return build.Edit(change) }

// ended returns the status of a container that has ended.
func ended(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason}}}
}

// TestOnlyTheReportOfTheNodeProvesAStop: without proof, the final pass might copy files that are still written, which loses data.
func TestOnlyTheReportOfTheNodeProvesAStop(t *testing.T) {
	disrupted := func(reason string) build.Option {
		return pod(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: reason})
		})
	}
	sidecar := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	})
	debug := pod(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	})
	notReady := build.Edit(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	cases := map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
	}{
		"all containers have ended":      {stopped(), build.Node()},
		"the pod has failed":             {stopped(build.InPhase(corev1.PodFailed)), build.Node()},
		"the pod was evicted by the API": {stopped(disrupted("EvictionByEvictionAPI")), build.Node()},
		"the grace period is not over": {stopped(pod(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](30) })),
			build.Node()},
		"there is no pod":                             {nil, build.Node()},
		"the hold was removed":                        {stopped(build.Finalizers("example.com/keep")), build.Node()},
		"the pod was not told to stop":                {stopped(pod(func(p *corev1.Pod) { p.DeletionTimestamp = nil })), build.Node()},
		"a forced deletion of a running pod":          {stopped(build.InPhase(corev1.PodRunning)), build.Node()},
		"the pod runs on a node that does not report": {stopped(build.InPhase(corev1.PodRunning)), build.Node(notReady)},
		"PodGC deleted the pod without its node":      {stopped(disrupted("DeletionByPodGC")), build.Node()},
		"its node is gone":                            {stopped(), nil},
		"its node does not report":                    {stopped(), build.Node(notReady)},
		"a container is not reported":                 {stopped(pod(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })), build.Node()},
		"a sidecar is not reported":                   {stopped(sidecar), build.Node()},
		"an ephemeral container is not reported":      {stopped(debug), build.Node()},
		"a container runs": {stopped(pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		})), build.Node()},
		"a sidecar runs": {stopped(sidecar, pod(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy"}}
		})), build.Node()},
		"a sidecar has ended": {stopped(sidecar, pod(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("proxy", "Error")}
		})), build.Node()},
		"a debugger has ended": {stopped(debug, pod(func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{ended("debug", "Completed")}
		})), build.Node()},
		"the kubelet has lost the container": {stopped(pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = ended("db",
				"ContainerStatusUnknown")
		})), build.Node()},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		file.Entry(t, name, orStopped(statefulset.WhyNotStopped(cases[name].pod, cases[name].node)))
	}
}

// orStopped makes the absence of an obstacle visible in a golden file.
func orStopped(obstacle string) string {
	if obstacle == "" {
		return "stopped"
	}
	return obstacle
}

func TestPodThatNeverRanIsNotStarted(t *testing.T) {
	for name, row := range map[string]struct {
		option build.Option
		want   bool
	}{
		"it runs":          {build.InPhase(corev1.PodRunning), true},
		"it has failed":    {build.InPhase(corev1.PodFailed), true},
		"it is pending":    {build.InPhase(corev1.PodPending), false},
		"it has no phase":  {build.InPhase(""), false},
		"it is on no node": {pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
	} {
		if got := statefulset.Started(build.PodOf("web", 0, "data")); !got {
			t.Fatal("a running pod has not started")
		}
		if got := statefulset.Started(build.With(build.PodOf("web", 0, "data"), row.option)); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestOnlyVolumesOfOneNodeShareItsPages: every other volume must be unmounted first, because the client's cache may hold unwritten data.
func TestOnlyVolumesOfOneNodeShareItsPages(t *testing.T) {
	volume := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return build.Volume("pv", build.Claim("data-web-0", "1Gi"), build.Edit(change))
	}
	local := func(v *corev1.PersistentVolume) { v.Spec.Local = &corev1.LocalVolumeSource{Path: "/x"} }
	csi := func(fsType string) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) {
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "example.com", FSType: fsType}
		}
	}
	shared := func(mode corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) {
			local(v)
			v.Spec.AccessModes = append(v.Spec.AccessModes, mode)
		}
	}
	for name, row := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"a local disk":                                   {volume(local), true},
		"a CSI volume with a file system":                {volume(csi("ext4")), true},
		"a CSI volume without a file system":             {volume(csi("")), false},
		"a CSI volume over the network":                  {volume(csi("nfs")), false},
		"a CSI volume served by a process of its driver": {volume(csi("fuse.juicefs")), false},
		"NFS":                  {volume(func(v *corev1.PersistentVolume) { v.Spec.NFS = &corev1.NFSVolumeSource{} }), false},
		"CephFS":               {volume(func(v *corev1.PersistentVolume) { v.Spec.CephFS = &corev1.CephFSPersistentVolumeSource{} }), false},
		"many nodes may write": {volume(shared(corev1.ReadWriteMany)), false},
		"many nodes may read":  {volume(shared(corev1.ReadOnlyMany)), false},
		"nothing is known":     {volume(func(*corev1.PersistentVolume) {}), false},
	} {
		if got := statefulset.SharesPages(row.volume); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// three returns the pods of a set of three. The function changes each of them.
func three(change func(ordinal int, pod *corev1.Pod)) []metav1.Object {
	var all []metav1.Object
	for ordinal := range 3 {
		pod := build.PodOf("web", ordinal, "data")
		change(ordinal, pod)
		all = append(all, pod)
	}
	return all
}

// only returns a change of the pod with the ordinal.
func only(ordinal int, change func(*corev1.Pod)) func(int, *corev1.Pod) {
	return func(current int, pod *corev1.Pod) {
		if current == ordinal {
			change(pod)
		}
	}
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestSetIsUnsteadyWhileAnotherMemberIsNotReady(t *testing.T) {
	minReady := func(seconds int32) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = seconds })
	}
	rollout := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		s.Status.CurrentRevision, s.Status.UpdateRevision, s.Status.UpdatedReplicas = "web-1", "web-2", 1
	})
	from1 := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1} })
	quiet := three(func(int, *corev1.Pod) {})
	for name, row := range map[string]struct {
		options []build.Option
		pods    []metav1.Object
		want    bool
	}{
		"all are ready":                  {nil, quiet, false},
		"the member itself is not ready": {nil, three(only(1, unready)), false},
		"the member itself has no pod":   {nil, []metav1.Object{quiet[0], quiet[2]}, false},
		"another is not ready":           {nil, three(only(0, unready)), true},
		"another and the member itself are not ready": {nil, three(func(ordinal int, p *corev1.Pod) {
			if ordinal < 2 {
				unready(p)
			}
		}), true},
		"another has no pod": {nil, []metav1.Object{quiet[0], quiet[1]}, true},
		"a pod of another set has the name of another member": {nil, []metav1.Object{quiet[0], quiet[1], build.Pod("web-2", nil)}, true},
		"another is ending":                     {nil, three(only(2, func(p *corev1.Pod) { build.Deleting()(p) })), true},
		"another was ready for too short":       {[]build.Option{minReady(120)}, quiet, true},
		"another was ready for long enough":     {[]build.Option{minReady(60)}, quiet, false},
		"a rollout runs":                        {[]build.Option{rollout}, quiet, true},
		"a rollout waits for the member":        {[]build.Option{rollout}, three(only(1, unready)), false},
		"ordinals do not begin at 0":            {[]build.Option{from1, build.Replicas(2), build.ReplicaCounts(2, 2)}, quiet[1:], false},
		"a pod above the replicas is not ready": {[]build.Option{build.Replicas(2)}, three(only(2, unready)), false},
	} {
		observed := build.World(append([]metav1.Object{set(append([]build.Option{build.Replicas(3)}, row.options...)...)}, row.pods...)...)
		if got := observed.WhyUnsteady(1); (got != "") != row.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOtherRevisionWouldMakeAStopARollout(t *testing.T) {
	revisions := func(current, update string, partition *int32) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) {
			s.Status.CurrentRevision, s.Status.UpdateRevision = current, update
			if partition != nil {
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: partition}
			}
		})
	}
	start := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} })
	for name, row := range map[string]struct {
		options  []build.Option
		revision string
		ordinal  int
		want     bool
	}{
		"the pod has the revision of new pods": {[]build.Option{revisions("web-1", "web-1", nil)}, "web-1", 1, false},
		"the pod has an older revision":        {[]build.Option{revisions("web-1", "web-2", nil)}, "web-1", 1, true},
		"the pod has the new revision":         {[]build.Option{revisions("web-1", "web-2", nil)}, "web-2", 1, false},
		"an older pod below the partition":     {[]build.Option{revisions("web-1", "web-2", ptr.To[int32](2))}, "web-1", 1, false},
		"an older pod above the partition":     {[]build.Option{revisions("web-1", "web-2", ptr.To[int32](1))}, "web-1", 1, true},
		"a newer pod below the partition":      {[]build.Option{revisions("web-1", "web-2", ptr.To[int32](2))}, "web-2", 1, true},
		"a partition counts from the first ordinal": {[]build.Option{start, revisions("web-1", "web-2", ptr.To[int32](1))}, "web-1", 5,
			false},
		"the pod has no revision":  {[]build.Option{revisions("web-1", "web-2", nil)}, "", 1, false},
		"the set has no revisions": {[]build.Option{revisions("", "", nil)}, "web-1", 1, false},
	} {
		pod := build.PodOf("web", row.ordinal, "data")
		build.Label(appsv1.ControllerRevisionHashLabelKey, row.revision)(pod)
		if got := build.World(set(row.options...), pod).OtherRevision(pod, row.ordinal); (got != "") != row.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestLostNamesAnotherMemberThatIsAway(t *testing.T) {
	quiet := three(func(int, *corev1.Pod) {})
	for name, row := range map[string]struct {
		pods []metav1.Object
		want string
	}{
		"all are ready":                {quiet, ""},
		"only the held member is away": {three(only(1, unready)), ""},
		"another has no pod":           {quiet[:2], "pod web-2 does not exist"},
		"another is not ready":         {three(only(0, unready)), "pod web-0 is not ready"},
		"another is ready and ends":    {three(only(2, func(p *corev1.Pod) { build.Deleting()(p) })), "pod web-2 is not ready"},
	} {
		if got := build.World(append([]metav1.Object{set(build.Replicas(3))}, row.pods...)...).LostMember(1); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestWantsCoversTheOrdinalsOfTheReplicas(t *testing.T) {
	from1 := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1} })
	for name, row := range map[string]struct {
		world   *world.Observed
		ordinal int
		want    bool
	}{
		"within":                   {build.World(set(build.Replicas(3))), 2, true},
		"above":                    {build.World(set(build.Replicas(3))), 3, false},
		"below the start":          {build.World(set(build.Replicas(3), from1)), 0, false},
		"at the end":               {build.World(set(build.Replicas(3), from1)), 3, true},
		"at zero":                  {build.World(set(build.Replicas(0))), 0, false},
		"the set is being deleted": {build.World(set(build.Replicas(3), build.Deleting())), 0, false},
		"there is no set":          {build.World(), 0, false},
	} {
		if got := row.world.Wants(row.ordinal); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestReadySinceReturnsTheTransition(t *testing.T) {
	if since, ready := statefulset.ReadySince(build.PodOf("web", 0)); !ready || !since.Equal(build.Now.Add(-time.Minute)) {
		t.Errorf("%s %t", since, ready)
	}
}

func set(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed")},
		options...)...)
}

// TestRecordBelongsToItsSetAlone: a record in a copied manifest says nothing about the new set.
// Invariants: I3.
func TestRecordBelongsToItsSetAlone(t *testing.T) {
	fresh := func(change func(*api.Resize)) *api.Resize {
		return build.Operation(api.Moving, func(s *api.Resize) { s.Set.UID, s.ReplaceSet = "", true }, change)
	}
	nothing := func(*api.Resize) {}
	for name, row := range map[string]struct {
		status  *api.Resize
		options []build.Option
		want    bool
	}{
		"its own":                                  {build.Operation(api.Moving), nil, true},
		"another UID, as in a copied manifest":     {build.Operation(api.Moving), []build.Option{build.UID("uid-2")}, false},
		"another name":                             {build.Operation(api.Moving, func(s *api.Resize) { s.Set.Name = "api" }), nil, false},
		"without UID: created again a moment ago":  {fresh(nothing), []build.Option{build.UID("uid-2")}, true},
		"without UID, but the set is not replaced": {fresh(func(s *api.Resize) { s.ReplaceSet = false }), nil, false},
		"without UID, and finished":                {fresh(func(s *api.Resize) { s.Phase = api.Succeeded }), nil, false},
	} {
		s := set(append(row.options, build.Status(row.status))...)
		got, err := build.World(s).Record()
		if err != nil || (got != nil) != row.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := build.World(set(build.Annotation(api.StatusAnnotation, "{"))).Record(); err == nil {
		t.Error("an unreadable record is no error")
	}
}

func TestObjectsOfAnOperationAreFoundByNameAndLink(t *testing.T) {
	target, second := build.Target("data-web-0", "1Gi"), build.Target("data-web-0", "1Gi")
	second.Name = api.TargetName(build.ID, "data-web-0", 1)
	// only its annotation makes it a target
	forged := build.With(build.Target("data-web-0", "1Gi"), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Name = "data-web-1" }))
	other := api.Link{Operation: "other", Role: api.RoleMover, Namespace: build.Namespace, Set: api.SetRef{Name: "web"}, Member: ptr.To(0)}
	otherMember := build.With(build.Job(0, 1), build.MemberLink(api.RoleMover, 1)) // its name and its link have different members
	o := build.World(build.Set("web"), target, second, forged, build.Claim("data-web-0", "1Gi", build.Link(api.RoleSource, "data-web-0")),
		build.Job(0, 1), otherMember, build.With(build.Job(0, 1), build.LinkOf(other)), build.Mover(build.Job(0, 2)),
		build.Pod("x", []string{"data-web-0"}), build.Journal(build.Operation(api.Moving)), build.Attachment("pv-1"))
	if c := o.TargetClaim(build.ID, &api.Move{Claim: "data-web-0", Copies: 1}); c == nil || c.Name != second.Name {
		t.Errorf("target of the second copy: %v", c)
	}
	if o.TargetClaim(build.ID, &api.Move{Claim: "data-web-0", Copies: 2}) != nil ||
		o.TargetClaim("other", &api.Move{Claim: "data-web-0"}) != nil || len(o.TargetClaims(build.ID)) != 2 {
		t.Error("targets of others")
	}
	if len(o.JobsOf(build.ID)) != 1 || len(o.JobsOf("other")) != 0 {
		t.Error("jobs of others")
	}
	movers, _ := o.MoversOfMember(build.ID, 0)
	others, _ := o.MoversOfMember("other", 0)
	if len(movers) != 1 || len(others) != 0 || len(o.Users("data-web-0")) != 1 {
		t.Error("pods of others")
	}
	if o.Journal(build.ID) == nil || o.Journal("other") != nil {
		t.Error("journals of others")
	}
	if !o.Attached("pv-1") || o.Attached("pv-2") {
		t.Error("attachments")
	}
	if o.Claim("none") != nil || o.Volume("") != nil || o.Volume("none") != nil {
		t.Error("an absent object was found")
	}
}

func TestVolumeNames(t *testing.T) {
	status := build.Operation(api.Moving, build.Members(api.MemberSwapping, "data-web-0"))
	journal := build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-1"))
	o := build.World(set(build.Status(status)), build.Claim("data-web-0", "1Gi"), build.Claim("data-web-2", "1Gi", build.BoundTo("")),
		build.Journal(journal))
	if got := strings.Join(o.VolumeNames(), " "); got != "pv-data-web-0 pv-data-web-1 pv-new-data-web-0" {
		t.Error(got)
	}
}

func TestTargets(t *testing.T) {
	auto := world.Targets(set(), api.Request{Auto: true})
	if size := auto["logs"].Size; len(auto) != 2 || size.String() != "32Mi" || auto["data"].Class != "fixed" {
		t.Errorf("%+v", auto)
	}
	asked, err := api.ParseRequest("data=1Gi")
	if err != nil || len(world.Targets(set(), asked)) != 1 {
		t.Errorf("%+v, %v", asked, err)
	}
}

// TestAnsweredRequestHasNoEffect: a request that has succeeded still applies, unless it was rolled back.
func TestAnsweredRequestHasNoEffect(t *testing.T) {
	rolledBack := func(s *api.Resize) { s.Kind = api.KindRollback }
	for name, row := range map[string]struct {
		status *api.Resize
		want   bool
	}{
		"no operation":                {nil, false},
		"it succeeded":                {build.Operation(api.Succeeded), false},
		"it failed":                   {build.Operation(api.Failed), true},
		"it was refused":              {build.Operation(api.Refused), true},
		"it was rolled back":          {build.Operation(api.Succeeded, rolledBack), true},
		"its rollback failed":         {build.Operation(api.Failed, rolledBack), true},
		"another request was refused": {build.Operation(api.Refused, func(s *api.Resize) { s.Request = "data=1Gi" }), false},
	} {
		if got := world.Answered(row.status, "data=128Mi"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTargetsOfARequest(t *testing.T) {
	auto := world.Targets(set(), api.Request{Auto: true})
	if data := auto["data"]; len(auto) != 2 || data.Size.String() != "64Mi" || data.Class != "fixed" || data.Exact ||
		!slices.Equal(data.Modes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
		t.Errorf("the templates are %+v", auto)
	}
	request, err := api.ParseRequest("data=1Gi@fast:RWX")
	if err != nil {
		t.Fatal(err)
	}
	if said := world.Targets(set(), request); len(said) != 1 || !said["data"].Exact || said["data"].Class != "fast" {
		t.Errorf("the targets of the request are %+v", said)
	}
}

// TestReadyPodOfNodeWithFastClock: a node whose clock was wrong for a moment leaves a Ready condition of the future, which nothing
// rewrites. Without minReadySeconds, Kubernetes counts the pod as available (k8s.io/kubernetes/pkg/api/v1/pod, IsPodAvailable).
func TestReadyPodOfNodeWithFastClock(t *testing.T) {
	other := build.With(build.PodOf("web", 0, "data"), build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(build.Now.Add(365 * 24 * time.Hour))}}
	}))
	o := build.World(build.Set("web", build.Replicas(2)), other, build.PodOf("web", 1, "data"))
	if why := o.WhyUnsteady(1); why != "" {
		t.Errorf("minReadySeconds is %d, and pod web-0 is ready, but member 1 may not be stopped for a year: %s", o.Set.Spec.MinReadySeconds, why)
	}
}
