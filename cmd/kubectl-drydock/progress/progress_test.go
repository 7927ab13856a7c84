package progress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// given is set web of two members with the record, and their pods.
func given(record *api.Resize, change func(set *[]build.Option, pods map[int][]build.Option), others ...metav1.Object) *world.Observed {
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

// told renders what is waited for: by the operation, then by each member.
func told(d *Document) string {
	words := append([]string{}, d.Waits...)
	for _, m := range d.Members {
		text := fmt.Sprintf("%d %s", m.Ordinal, m.Phase)
		if m.Waits != "" {
			text += ": " + m.Waits
		}
		words = append(words, text)
	}
	return strings.Join(words, "\n")
}

func moving(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, "data-web-0", "data-web-1")}, options...)...)
}

func annotated(key, value string) func(*[]build.Option, map[int][]build.Option) {
	return func(set *[]build.Option, _ map[int][]build.Option) { *set = append(*set, build.Annotation(key, value)) }
}

func TestStatusSaysWhatIsWaitedFor(t *testing.T) {
	stalled := build.EditMember(1, func(m *api.Member) { m.Stalled = "ImagePullBackOff: no such image" })
	locked := build.EditMember(1, func(m *api.Member) { m.Locked = true })
	in := func(ordinal int, phase api.MemberPhase) func(*api.Resize) {
		return build.EditMember(ordinal, func(m *api.Member) { m.Phase = phase })
	}
	rows := map[string]struct {
		record *api.Resize
		change func(set *[]build.Option, pods map[int][]build.Option)
	}{
		"the owner":      {build.Operation(api.Planned, build.Members(api.MemberPending, "data-web-0")), nil},
		"first passes":   {moving(api.MemberCopying), nil},
		"a stall":        {moving(api.MemberCopying, stalled), nil},
		"another member": {moving(api.MemberWaiting, in(0, api.MemberCopying)), nil},
		"your approval":  {moving(api.MemberWaiting), annotated(api.CutoverAnnotation, "approve")},
		"a window":       {moving(api.MemberWaiting), annotated(api.CutoverAnnotation, "Sat 02:00-04:00 UTC")},
		"the proof that it has stopped": {moving(api.MemberStopping, locked), func(_ *[]build.Option, pods map[int][]build.Option) {
			pods[0] = []build.Option{build.Finalizers(api.HoldFinalizer), build.Deleting()}
		}},
		"the rest":   {moving(api.MemberFinalPass, in(0, api.MemberSwapping)), nil},
		"the growth": {moving(api.MemberGrowing, in(0, api.MemberMoved)), nil},
		"the start":  {moving(api.MemberStarting, in(0, api.MemberMoved)), nil},
		"a member that has to catch up": {moving(api.MemberStarting, in(0, api.MemberMoved)),
			func(set *[]build.Option, pods map[int][]build.Option) {
				*set = append(*set, build.Annotation(api.MemberCheckAnnotation, "tcp:5432"))
				pods[1] = []build.Option{build.UID("uid-fresh")}
			}},
		"a hook after a member": {moving(api.MemberStarting, in(0, api.MemberMoved),
			build.EditMember(1, func(m *api.Member) { m.Ready = m.Released })), nil},
		"what is left": {build.Operation(api.Finishing, build.Members(api.MemberMoved, "data-web-0")), nil},
		"giving up":    {build.Operation(api.Reverting, build.Members(api.MemberKept, "data-web-0")), nil},
		"nothing":      {build.Operation(api.Succeeded, build.Members(api.MemberMoved, "data-web-0")), nil},
		"no operation": {nil, nil},
		"a claim grows": {build.Operation(api.Expanding, func(r *api.Resize) {
			r.Expansions = []api.Expansion{{Claim: "data-web-0",
				To: r.Templates[0].Size}}
		}), nil},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			d, err := Of(given(row.record, row.change))
			if err != nil {
				t.Fatal(err)
			}
			file.Entry(t, name, told(d))
		})
	}
}

// TestStatusSaysWhatKeepsAHeldMember: it is what a user looks for when a member does not come back.
func TestStatusSaysWhatKeepsAHeldMember(t *testing.T) {
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
	claim, mine := build.Claim(name, "64Mi"), build.Finalizers("example.com/keep")
	shared := build.VolumeOf(claim, build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}))
	rows := map[string]struct {
		record *api.Resize
		others []metav1.Object
	}{
		"the unmount": {one(api.Moving, api.MemberStopping), []metav1.Object{build.Node(), claim, shared}},
		"a finalizer of others": {one(api.Moving, api.MemberSwapping), []metav1.Object{build.With(build.Claim(name, "64Mi"), mine,
			build.Deleting())}},
		"a claim that goes":         {one(api.Moving, api.MemberSwapping), []metav1.Object{build.With(build.Claim(name, "64Mi"), build.Deleting())}},
		"a claim that is gone":      {one(api.Moving, api.MemberSwapping), nil},
		"the binding":               {one(api.Moving, api.MemberSwapping), []metav1.Object{build.With(build.Claim(name, "64Mi"), build.Pending())}},
		"a volume that is attached": {one(api.Moving, api.MemberGrowing), []metav1.Object{claim, build.Attachment("pv-" + name)}},
		"the others":                {one(api.Moving, api.MemberSwapping, moved), []metav1.Object{claim}},
		"the rest":                  {one(api.Moving, api.MemberSwapping), []metav1.Object{claim}},
		"ended, without a claim":    {one(api.Failed, api.MemberKept), nil},
		"ended":                     {one(api.Failed, api.MemberKept), []metav1.Object{claim}},
		"no record":                 {nil, []metav1.Object{claim}},
	}
	file := golden.Open(t)
	for _, title := range slices.Sorted(maps.Keys(rows)) {
		row := rows[title]
		t.Run(title, func(t *testing.T) {
			d, err := Of(given(row.record, held, row.others...))
			if err != nil {
				t.Fatal(err)
			}
			file.Entry(t, title, told(d))
		})
	}
}

func TestStatusOfAnUnreadableRecordIsAnError(t *testing.T) {
	if _, err := Of(given(nil, annotated(api.StatusAnnotation, "{"))); err == nil {
		t.Error("it cannot be read")
	}
}

// TestStopOfAMemberIsCountedFromItsHoldToItsReplacement, as long as it is known.
func TestStopOfAMemberIsCountedFromItsHoldToItsReplacement(t *testing.T) {
	ago := func(long time.Duration) *metav1.Time { return operation.Moment(build.Now.Add(-long)) }
	for name, row := range map[string]struct {
		member api.Member
		want   string
	}{
		"not held":        {api.Member{Phase: api.MemberWaiting}, "unknown"},
		"held":            {api.Member{Phase: api.MemberFinalPass, Held: ago(5 * time.Second)}, "5"},
		"ready":           {api.Member{Phase: api.MemberMoved, Held: ago(time.Minute), Ready: ago(53 * time.Second)}, "7"},
		"without a pod":   {api.Member{Phase: api.MemberFinalPass, Held: ago(time.Minute), Locked: true}, "unknown"},
		"given back":      {api.Member{Phase: api.MemberKept, Held: ago(time.Minute)}, "unknown"},
		"moved, no start": {api.Member{Phase: api.MemberMoved, Held: ago(time.Minute)}, "unknown"},
	} {
		got := "unknown"
		if n := down(&row.member, build.Now); n != nil {
			got = fmt.Sprint(*n)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
