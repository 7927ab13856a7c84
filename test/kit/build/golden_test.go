package build

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

func TestPlanShowsHowRecordsChange(t *testing.T) {
	record := Sleep(api.Stopping, SleepReason(api.WaitingForReady, "it stops"), SleepDue(time.Hour))
	asleep := record.Clone()
	asleep.Phase, asleep.Message, asleep.Deadline, asleep.PodsGoneAt, asleep.Starts = api.Asleep, "", nil, operation.Moment(Now), 2
	copied := Operation(api.Moving, Members(api.MemberMoved, "data-web-0"))
	two := copied.Clone()
	two.Members[0].Claims[0].BytesDone = 7
	two.Members = append(two.Members, Member(1, api.MemberPending))

	for says, c := range map[string]struct {
		set      *appsv1.StatefulSet
		key, now string
		want     []string
	}{
		"fields change, are added and removed": {Set("web", WithSleep(record)), api.SleepAnnotation, asleep.Encode(), []string{
			"sleep.deadline: 1h0m0s -> none", `sleep.message: "it stops" -> none`, "sleep.phase: Stopping -> Asleep",
			"sleep.quiesced: 0s", "sleep.starts: 2"}},
		"members change": {Set("web", Status(copied)), api.StatusAnnotation, two.Encode(), []string{
			"status.members[0].claims[0].bytesDone: 7", "status.members[1]: {ordinal: 1, phase: Pending}"}},
		"a field that no code knows": {Set("web", Annotation(api.ScaleAnnotation, `{"a":1}`)), api.ScaleAnnotation, `{"a":1,"b":[2]}`,
			[]string{"scale.b: [2]"}},
		"there was no record": {Set("web"), api.ScaleAnnotation, `{"zero":0,"text":""}`, []string{`scale.text: ""`, "scale.zero: 0"}},
		"the record could not be read": {Set("web", Annotation(api.ScaleAnnotation, "{")), api.ScaleAnnotation, `{"a":1}`,
			[]string{"scale.a: 1"}},
		"the annotation has no document": {Set("web"), api.RetryAnnotation, "now", nil},
	} {
		p := plan.Do(api.UpToDate, plan.PatchOf(plan.StatefulSets, c.set).Annotate(c.key, c.now).Actions()...)
		var got []string
		for _, line := range strings.Split(Plan(p, World(c.set)), "\n") {
			if change, ok := strings.CutPrefix(line, "  "); ok {
				got = append(got, change)
			}
		}
		if problem := cmp.Diff(c.want, got); problem != "" {
			t.Errorf("%s (-want +got):\n%s", says, problem)
		}
	}
}
