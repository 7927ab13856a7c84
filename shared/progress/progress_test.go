package progress

import (
	"fmt"
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
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// observedWith returns the world with set web, the record, and the pods of its two members.
func observedWith(record *api.Resize, change func(set *[]build.Option, pods map[int][]build.Option),
	others ...metav1.Object) *world.Observed {
	options, pods := []build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed")}, map[int][]build.Option{0: nil, 1: nil}
	if record != nil {
		options = append(options, build.Status(record))
	}
	if change != nil {
		change(&options, pods)
	}
	objects := append([]metav1.Object{build.Set("web", options...)}, others...)
	for ordinal, of := range pods {
		objects = append(objects, build.With(build.PodOf("web", ordinal, "data"), of...))
	}
	return build.World(objects...)
}

// renderReasons renders the reasons why the operation waits, and then those of each member.
func renderReasons(d *Document) string {
	lines := append([]string{}, d.Waits...)
	for _, m := range d.Members {
		text := fmt.Sprintf("%d %s", m.Ordinal, m.Phase)
		if m.Waits != "" {
			text += ": " + m.Waits
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func movingRecord(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, "data-web-0", "data-web-1")}, options...)...)
}

func withSetAnnotation(key, value string) func(*[]build.Option, map[int][]build.Option) {
	return func(set *[]build.Option, _ map[int][]build.Option) { *set = append(*set, build.Annotation(key, value)) }
}

// TestStatusShowsWhyOperationWaits has a row for each phase of an operation and its members.
func TestStatusShowsWhyOperationWaits(t *testing.T) {
	stalled := build.EditMember(1, func(m *api.Member) { m.Stalled = "ImagePullBackOff: no such image" })
	locked := build.EditMember(1, func(m *api.Member) { m.Locked = true })
	inPhase := func(ordinal int, phase api.MemberPhase) func(*api.Resize) {
		return build.EditMember(ordinal, func(m *api.Member) { m.Phase = phase })
	}
	rows := map[string]struct {
		record *api.Resize
		change func(set *[]build.Option, pods map[int][]build.Option)
	}{
		"the owner is being paused":      {build.Operation(api.Planned, build.Members(api.MemberPending, "data-web-0")), nil},
		"first passes are running":       {movingRecord(api.MemberCopying), nil},
		"a mover is stalled":             {movingRecord(api.MemberCopying, stalled), nil},
		"another member is copied first": {movingRecord(api.MemberWaiting, inPhase(0, api.MemberCopying)), nil},
		"another member is moved first":  {movingRecord(api.MemberPending, build.Rolling, inPhase(0, api.MemberStarting)), nil},
		"other resizes use all movers": {movingRecord(api.MemberWaiting, inPhase(0, api.MemberPending),
			func(r *api.Resize) { r.Reason = api.TurnWaits }), nil},
		"an approval is missing": {movingRecord(api.MemberWaiting), withSetAnnotation(api.CutoverAnnotation, "approve")},
		"the window is closed": {movingRecord(api.MemberWaiting), withSetAnnotation(api.CutoverAnnotation,
			"Sat 02:00-04:00 UTC")},
		"the pods have not stopped": {movingRecord(api.MemberStopping, locked), func(_ *[]build.Option, pods map[int][]build.Option) {
			pods[0] = []build.Option{build.Finalizers(api.HoldFinalizer), build.Deleting()}
		}},
		"the claims are created again":              {movingRecord(api.MemberFinalPass, inPhase(0, api.MemberSwapping)), nil},
		"a claim grows while its member is stopped": {movingRecord(api.MemberGrowing, inPhase(0, api.MemberMoved)), nil},
		"the pod starts":                            {movingRecord(api.MemberStarting, inPhase(0, api.MemberMoved)), nil},
		"the member must catch up": {movingRecord(api.MemberStarting, inPhase(0, api.MemberMoved)),
			func(set *[]build.Option, pods map[int][]build.Option) {
				*set = append(*set, build.Annotation(api.MemberCheckAnnotation, "tcp:5432"))
				pods[1] = []build.Option{build.UID("uid-fresh")}
			}},
		"the after-member Job runs": {movingRecord(api.MemberStarting, inPhase(0, api.MemberMoved),
			build.EditMember(1, func(m *api.Member) { m.ReadyAt = m.ReleasedAt })), nil},
		"the operation is finishing":      {build.Operation(api.Finishing, build.Members(api.MemberMoved, "data-web-0")), nil},
		"the operation is being reverted": {build.Operation(api.Reverting, build.Members(api.MemberKept, "data-web-0")), nil},
		"the operation is being reverted, and a pod is held": {build.Operation(api.Reverting, build.Members(api.MemberStopping, "data-web-0")),
			func(_ *[]build.Option, pods map[int][]build.Option) {
				pods[0] = []build.Option{build.Finalizers(api.HoldFinalizer)}
			}},
		"the operation has succeeded": {build.Operation(api.Succeeded, build.Members(api.MemberMoved, "data-web-0")), nil},
		"no operation":                {nil, nil},
		"a claim grows": {build.Operation(api.Expanding, func(r *api.Resize) {
			r.Expansions = []api.Expansion{{Claim: "data-web-0",
				To: r.Templates[0].Size}}
		}), nil},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			d, err := New(observedWith(row.record, row.change))
			if err != nil {
				t.Fatal(err)
			}
			file.Entry(t, name, renderReasons(d))
		})
	}
}

// TestStatusShowsWhyHeldMemberWaits: a user needs the reason when a member does not start again.
func TestStatusShowsWhyHeldMemberWaits(t *testing.T) {
	const name = "data-web-0"
	held := func(_ *[]build.Option, pods map[int][]build.Option) {
		pods[0] = []build.Option{build.Held(0), build.Stopped(),
			build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](30) })}
		delete(pods, 1)
	}
	one := func(phase api.Phase, member api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
		return build.Operation(phase, append([]func(*api.Resize){build.Members(member, name)}, options...)...)
	}
	moved := build.EditMember(0, func(m *api.Member) { m.Claims[0].Moved = true })
	claim, foreignFinalizer := build.Claim(name, "64Mi"), build.Finalizers("example.com/keep")
	shared := build.VolumeOf(claim, build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}))
	rows := map[string]struct {
		record *api.Resize
		others []metav1.Object
	}{
		"the volume is still mounted": {one(api.Moving, api.MemberStopping), []metav1.Object{build.Node(), claim, shared}},
		"another controller's finalizer keeps the claim": {one(api.Moving, api.MemberSwapping),
			[]metav1.Object{build.With(build.Claim(name, "64Mi"), foreignFinalizer,
				build.Deleting())}},
		"the claim is being deleted": {one(api.Moving, api.MemberSwapping),
			[]metav1.Object{build.With(build.Claim(name, "64Mi"), build.Deleting())}},
		"the claim was deleted": {one(api.Moving, api.MemberSwapping), nil},
		"the claim is not bound": {one(api.Moving, api.MemberSwapping),
			[]metav1.Object{build.With(build.Claim(name, "64Mi"), build.Pending())}},
		"the volume is still attached": {one(api.Moving, api.MemberGrowing),
			[]metav1.Object{claim, build.Attachment("pv-" + name)}},
		"other members start together with it":            {one(api.Moving, api.MemberSwapping, moved), []metav1.Object{claim}},
		"the new volumes are not bound":                   {one(api.Moving, api.MemberSwapping), []metav1.Object{claim}},
		"the operation has ended, and a claim is missing": {one(api.Failed, api.MemberKept), nil},
		"the operation has ended":                         {one(api.Failed, api.MemberKept), []metav1.Object{claim}},
		"the set has no record":                           {nil, []metav1.Object{claim}},
	}
	file := golden.Open(t)
	for _, title := range slices.Sorted(maps.Keys(rows)) {
		row := rows[title]
		t.Run(title, func(t *testing.T) {
			d, err := New(observedWith(row.record, held, row.others...))
			if err != nil {
				t.Fatal(err)
			}
			file.Entry(t, title, renderReasons(d))
		})
	}
}

// TestUnreadableRecordIsError: without the record there is no progress to show.
func TestUnreadableRecordIsError(t *testing.T) {
	if _, err := New(observedWith(nil, withSetAnnotation(api.StatusAnnotation, "{"))); err == nil {
		t.Error("an unreadable record is no error")
	}
}

// TestDownSecondsLastFromHoldToReadyReplacement: without a known end they are unknown.
func TestDownSecondsLastFromHoldToReadyReplacement(t *testing.T) {
	ago := func(long time.Duration) *metav1.Time { return operation.Moment(build.Now.Add(-long)) }
	for name, row := range map[string]struct {
		member api.Member
		want   string
	}{
		"not held":             {api.Member{Phase: api.MemberWaiting}, "unknown"},
		"held":                 {api.Member{Phase: api.MemberFinalPass, HeldAt: ago(5 * time.Second)}, "5"},
		"ready":                {api.Member{Phase: api.MemberMoved, HeldAt: ago(time.Minute), ReadyAt: ago(53 * time.Second)}, "7"},
		"without a pod":        {api.Member{Phase: api.MemberFinalPass, HeldAt: ago(time.Minute), Locked: true}, "unknown"},
		"reverted":             {api.Member{Phase: api.MemberKept, HeldAt: ago(time.Minute)}, "unknown"},
		"moved, start unknown": {api.Member{Phase: api.MemberMoved, HeldAt: ago(time.Minute)}, "unknown"},
	} {
		got := "unknown"
		if n := downSeconds(&row.member, build.Now); n != nil {
			got = fmt.Sprint(*n)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// TestStatusShowsOwnerThatStaysPaused: the resize has succeeded, and its owner still needs the user.
func TestStatusShowsOwnerThatStaysPaused(t *testing.T) {
	for problem, want := range map[string][]string{"": nil, "RabbitmqCluster mq says 1Gi": {
		"the owner to be resumed: RabbitmqCluster mq says 1Gi"}} {
		record := build.Operation(api.Succeeded)
		record.OwnerProblem = problem
		d, err := New(observedWith(record, nil))
		if err != nil || !slices.Equal(d.Waits, want) {
			t.Errorf("%q: it waits for %q, want %q, %v", problem, d.Waits, want, err)
		}
	}
}

// TestTimeLeftIsOfAllClaims: the mover copies one claim after the other, and knows the size of a claim only when it begins it. A user plans
// a window by the time that is left.
func TestTimeLeftIsOfAllClaims(t *testing.T) {
	var rates Rates
	var left *int64
	for i := range 2 {
		now := build.Now.Add(time.Duration(i) * 30 * time.Second)
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, "data-web-0", "logs-web-0"))
		member := &record.Members[0]
		member.ProgressAt = operation.Moment(now)
		member.Claims[0].BytesDone, member.Claims[0].BytesTotal = int64(i+1)<<30, 3<<30 // nothing is known about logs, of 1 TiB
		d, err := FromRecord(&world.Observed{Now: now, Set: setWith(record)})
		if err != nil {
			t.Fatal(err)
		}
		rates.Add(d, now)
		left = d.Members[0].SecondsLeft
	}
	if left != nil {
		t.Errorf("%d s are left of a copy of which one claim is not begun", *left)
	}
}

func setWith(record *api.Resize) *appsv1.StatefulSet { return build.Set("web", build.Status(record)) }
