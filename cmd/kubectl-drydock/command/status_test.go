package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/progress"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func TestStatusForPeople(t *testing.T) {
	q := resource.MustParse
	claim := []progress.Claim{{Name: "data-web-0", Template: "data", From: q("10Gi"), To: q("20Gi"), Class: "fast"}}
	d := &progress.Document{Namespace: "shop", Set: "web", Kind: api.KindResize, Operation: build.ID, Request: "data=20Gi@fast",
		Phase: api.Moving, Strategy: api.StrategyRolling,
		Started: operation.Moment(build.Now.Add(-3 * time.Minute)), Reason: api.ResizeDetected, Message: "3 claims will be\ncopied",
		Waits: []string{"an approval"},
		Growing: []progress.Growth{{Claim: "logs-web-0", From: q("1Gi"), To: q("2Gi"), Done: true},
			{Claim: "logs-web-1", From: q("1Gi"), To: q("2Gi")},
			{Claim: "logs-web-2", From: q("1Gi"), To: q("1Gi"), Attributes: ptr.To("gold")}},
		Members: []progress.Member{
			{Ordinal: 2, Phase: api.MemberMoved, Claims: claim, Copied: 3 << 30, Bytes: 3 << 30, Down: ptr.To[int64](6)},
			{Ordinal: 1, Phase: api.MemberFinalPass, Claims: claim, Copied: 3 << 29, Bytes: 3 << 30, Down: ptr.To[int64](2), Forecast: 3,
				Waits: "the final pass"},
			{Ordinal: 0, Phase: api.MemberWaiting, Claims: claim, Copied: 1 << 30, Bytes: 1 << 30, Forecast: 3.2, Waits: "its turn"},
		}}
	const want = `statefulset.apps/web: resize data=20Gi@fast is Moving (rolling, operation 0123456789ab, begun 3m ago)
ResizeDetected: 3 claims will be copied
waits for: an approval
sleep: operation ` + build.SleepID + ` (idle) is Asleep

CLAIM        GROWS        IS
logs-web-0   1Gi -> 2Gi   grown
logs-web-1   1Gi -> 2Gi   growing
logs-web-2   1Gi -> 1Gi%gold   changing

MEMBER   PHASE       CLAIMS                    COPIED             STOP                WAITS FOR
2        Moved       data 10Gi -> 20Gi@fast    3 GiB              6 s                 -
1        FinalPass   data 10Gi -> 20Gi@fast    1.5 GiB of 3 GiB   2 s so far          the final pass
0        Waiting     data 10Gi -> 20Gi@fast    1 GiB              final pass of 3 s   its turn
`
	var out bytes.Buffer
	if err := printStatus(&out, d, build.Set("web", build.WithSleep(build.Sleep(api.Asleep))), build.Now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Errorf("%s\n%s", diff, out.String())
	}
}

func TestStatusWithoutAResizeIsShort(t *testing.T) {
	var out bytes.Buffer
	if err := printStatus(&out, &progress.Document{Set: "web"}, build.Set("web"), build.Now); err != nil ||
		out.String() != "statefulset.apps/web: no resize yet\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestApprovalIsRefusedWhereItWouldDoNothing(t *testing.T) {
	approve := build.Annotation(api.CutoverAnnotation, api.CutoverApprove)
	moving := build.Status(build.Operation(api.Moving, build.Members(api.MemberWaiting, "data-web-0")))
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want string // part of the refusal; empty if there is something to approve
	}{
		"members wait":              {build.Set("web", approve, moving), ""},
		"no resize":                 {build.Set("web", approve), "no resize has begun"},
		"it has ended":              {build.Set("web", approve, build.Status(build.Operation(api.Succeeded))), "is Succeeded"},
		"it stops no member":        {build.Set("web", approve, build.Status(build.Operation(api.Planned))), "stops no member"},
		"a pod may have to restart": {build.Set("web", approve, build.Status(build.Operation(api.Expanding))), ""},
		"no approval is needed":     {build.Set("web", moving), "drydock.dev/cutover=approve asks for one"},
		"it cannot be read":         {build.Set("web", approve, build.Annotation(api.StatusAnnotation, "{")), "drydock.dev/status"},
	} {
		record, err := approvable(row.set)
		switch {
		case row.want == "" && (err != nil || record.Operation != build.ID), row.want != "" &&
			(err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// TestApproveWritesTheOperation, under the state of the set that was read.
func TestApproveWritesTheOperation(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
		build.Status(build.Operation(api.Moving, build.Members(api.MemberWaiting, "data-web-0")))))
	out, err := c.run(t, "approve", "sts/web")
	if err != nil || !strings.Contains(out, "operation "+build.ID+" may stop its members now (whole)") {
		t.Fatalf("%q, %v", out, err)
	}
	if len(c.wrote) != 1 || !strings.Contains(c.wrote[0], "drydock.dev~1approve value:"+build.ID) ||
		!strings.Contains(c.wrote[0], "resourceVersion value:rv-web") {
		t.Errorf("%q", c.wrote)
	}
}

// TestStatusTellsOfGrowthByUsage: what has grown, and what does not.
func TestStatusTellsOfGrowthByUsage(t *testing.T) {
	growth := &api.Growth{Asked: map[string]api.AskedGrowth{"data": {At: *operation.Moment(build.Now.Add(-time.Hour)), Size: "12Gi", Saw: "claim data-web-1 is full"}},
		Told: []api.GrowthWarning{{Template: "logs", Reason: api.GrowthLimit, Message: "a volume of template logs is\nfull"}}}
	var out bytes.Buffer
	if err := printStatus(&out, &progress.Document{Set: "web", GrowthByUsage: growth}, build.Set("web"), build.Now); err != nil {
		t.Fatal(err)
	}
	const want = "statefulset.apps/web: no resize yet\ngrew by usage: template data to 12Gi, 60m ago: claim data-web-1 is full\n" +
		"does not grow: a volume of template logs is full (GrowthLimit)\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
