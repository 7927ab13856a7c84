package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/screen"
)

// statusText returns the status as kubectl drydock prints it into a pipe.
func statusText(d *progress.Document, set *appsv1.StatefulSet) string {
	return strings.Join(statusLines(d, set, build.Now, terminal.New(&bytes.Buffer{})), "\n") + "\n"
}

func TestStatusShowsEachMember(t *testing.T) {
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
			{Ordinal: 2, Phase: api.MemberMoved, Claims: claim, Copied: 3 << 30, Bytes: 3 << 30, FinalPassBytes: 2500,
				DownSeconds: ptr.To[int64](6)},
			{
				Ordinal:         1,
				Phase:           api.MemberFinalPass,
				Claims:          claim,
				Copied:          3 << 29,
				Rate:            20 << 20,
				SecondsLeft:     ptr.To[int64](76),
				Bytes:           3 << 30,
				DownSeconds:     ptr.To[int64](2),
				ForecastSeconds: 3,
				Waits:           "the final pass",
			},
			{Ordinal: 0, Phase: api.MemberWaiting, Claims: claim, Copied: 1 << 30, Bytes: 1 << 30, ForecastSeconds: 3.2, Waits: "its stop"},
		}}
	golden.Equal(t, statusText(d, build.Set("web", build.WithSleep(build.Sleep(api.Asleep)))))
}

// TestStatusShowsWarningsOfCopies: each different warning once, and not more than the limit.
func TestStatusShowsWarningsOfCopies(t *testing.T) {
	lost := "the preallocated space (fallocate) of 2 entries is not copied. First: \"wal\x1b/0001\""
	d := &progress.Document{Set: "web", Members: []progress.Member{
		{Claims: []progress.Claim{{Name: "data-web-0", Warnings: []string{lost}}, {Name: "logs-web-0"}}},
		{Claims: []progress.Claim{{Name: "data-web-1", Warnings: []string{lost, "another"}}}},
	}}
	golden.Equal(t, strings.Join(warningLines(d), "\n")+"\n")
	for i := range 10 {
		d.Members[0].Claims[0].Warnings = append(d.Members[0].Claims[0].Warnings, fmt.Sprint("warning ", i))
	}
	if lines := warningLines(d); len(lines) != shownWarnings+1 || lines[shownWarnings] != "7 more warnings. Show all with -o yaml" {
		t.Errorf("%q", lines)
	}
}

// TestStatusFitsTheScreen: nothing that a user needs is cut on a narrow terminal, neither the waits nor the operation's id.
func TestStatusFitsTheScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	q := resource.MustParse
	claim := []progress.Claim{{Name: "data-web-0", Template: "data", From: q("64Mi"), To: q("128Mi")}}
	d := &progress.Document{Namespace: "trial", Set: "web", Kind: api.KindResize, Operation: build.ID, Request: "data=128Mi",
		Phase: api.Moving, Strategy: api.StrategyRolling, Started: operation.Moment(build.Now.Add(-98 * time.Second)), Reason: api.Quiescing,
		Message: "pod web-1 is stopped (try 1 of at most 4 for each pod) and held by the finalizer drydock.dev/hold " +
			"until the volumes are replaced",
		Members: []progress.Member{
			{Ordinal: 2, Phase: api.MemberMoved, Claims: claim, Copied: 40 << 20, Bytes: 40 << 20, FinalPassBytes: 2560,
				DownSeconds: ptr.To[int64](6)},
			{Ordinal: 1, Phase: api.MemberStopping, Claims: claim, Copied: 40 << 20, Bytes: 40 << 20, DownSeconds: ptr.To[int64](2),
				Waits: "the end of its processes: the kubelet of node worker-1 has not reported the end of container app"},
			{Ordinal: 0, Phase: api.MemberCopying, Claims: claim, Copied: 10 << 20, Bytes: 40 << 20, Rate: 100 << 10,
				SecondsLeft: ptr.To[int64](307), Waits: "the first passes beside its pod"},
		}}
	file := golden.Open(t)
	for _, columns := range []int{80, 120, 200} {
		seen := screen.New(t, columns, 40)
		shown := terminal.New(seen.Terminal)
		if err := shown.Show(statusLines(d, build.Set("web"), build.Now, shown)); err != nil {
			t.Fatal(err)
		}
		text := seen.Close()
		if strings.Contains(text, "…") {
			t.Errorf("with %d columns, a text is cut", columns)
		}
		file.Entry(t, fmt.Sprintf("%d columns", columns), text)
	}
}

func TestStatusWithoutAResizeIsOneLine(t *testing.T) {
	golden.Equal(t, statusText(&progress.Document{Set: "web"}, build.Set("web")))
}

func TestApprovalIsRefusedWhereItHasNoEffect(t *testing.T) {
	approve := build.Annotation(api.CutoverAnnotation, api.CutoverApprove)
	moving := build.Status(build.Operation(api.Moving, build.Members(api.MemberWaiting, "data-web-0")))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		set       *appsv1.StatefulSet
	}{
		{"a member waits for it", build.Set("web", approve, moving)},
		{"there is no resize", build.Set("web", approve)},
		{"the resize has ended", build.Set("web", approve, build.Status(build.Operation(api.Succeeded)))},
		{"the resize stops no member", build.Set("web", approve, build.Status(build.Operation(api.Planned)))},
		{"a claim grows, and a pod may have to restart for it", build.Set("web", approve, build.Status(build.Operation(api.Expanding)))},
		{"members stop without an approval", build.Set("web", moving)},
		{"the record is unreadable", build.Set("web", approve, build.Annotation(api.StatusAnnotation, "{"))},
	} {
		record, err := approvable(row.set)
		if err != nil {
			file.Entry(t, row.situation, "error: "+err.Error())
			continue
		}
		file.Entry(t, row.situation, "approves operation "+record.Operation)
	}
}

// TestApproveWritesTheOperationsID under the resourceVersion that was read.
func TestApproveWritesTheOperationsID(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
		build.Status(build.Operation(api.Moving, build.Members(api.MemberWaiting, "data-web-0")))))
	out, err := c.run(t, "approve", "sts/web")
	if err != nil || !strings.Contains(out, "operation "+build.ID+" may stop its members (whole)") {
		t.Fatalf("%q, %v", out, err)
	}
	if len(c.wrote) != 1 || !strings.Contains(c.wrote[0], "drydock.dev~1approve value:"+build.ID) ||
		!strings.Contains(c.wrote[0], "resourceVersion value:rv-web") {
		t.Errorf("%q", c.wrote)
	}
}

// TestStatusShowsGrowthByUsage: templates that grew, and templates that do not grow.
func TestStatusShowsGrowthByUsage(t *testing.T) {
	growth := &api.Growth{
		Latest: map[string]api.RequestedGrowth{"data": {At: *operation.Moment(build.Now.Add(-time.Hour)), Size: "12Gi",
			Cause: "claim data-web-1 is full"}},
		Warnings: []api.GrowthWarning{{Template: "logs", Reason: api.GrowthLimit, Message: "a volume of template logs is\nfull"}}}
	golden.Equal(t, statusText(&progress.Document{Set: "web", GrowthByUsage: growth}, build.Set("web")))
}

func TestLogOfAWaitHasNoNumbersThatChange(t *testing.T) {
	d := &progress.Document{Namespace: "shop", Set: "web", Operation: build.ID, Phase: api.Moving, Reason: api.CopyRunning, Message: "copying",
		Waits: []string{"an approval"},
		Members: []progress.Member{{Ordinal: 1, Phase: api.MemberMoved, Copied: 5, Bytes: 5, DownSeconds: ptr.To[int64](6)},
			{Ordinal: 0, Phase: api.MemberCopying, Copied: 3, Bytes: 5, Waits: "the first passes beside its pod"}}}
	golden.Equal(t, strings.Join(changeLines(d, &operationLine{}), "\n")+"\n")
}

// TestLogOfAWaitSaysEachCauseOnce: the phases Reverting and Failed have the same cause.
func TestLogOfAWaitSaysEachCauseOnce(t *testing.T) {
	var out bytes.Buffer
	shown, said := terminal.New(&out), operationLine{}
	for _, phase := range []api.Phase{api.Reverting, api.Reverting, api.Failed, api.Failed} {
		d := &progress.Document{Set: "web", Operation: build.ID, Phase: phase, Reason: api.CopyFailed, Message: "no space"}
		if err := shown.Show(changeLines(d, &said)); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("operation %[1]s is Reverting: CopyFailed: no space\noperation %[1]s is Failed\n", build.ID)
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestStatusShowsWhatNeedsAttention: nothing is left to do about a withdrawn request. A failed scaling and a passed deadline are shown.
func TestStatusShowsWhatNeedsAttention(t *testing.T) {
	refused := build.Status(build.Operation(api.Refused, func(r *api.Resize) { r.Reason, r.Message = api.UnknownClass, "no such class" }))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		set       *appsv1.StatefulSet
	}{
		{"the request stands", build.Set("web", refused, build.Resize("data=128Mi"))},
		{"the request is withdrawn", build.Set("web", refused)},
		{"another request replaces it", build.Set("web", refused, build.Resize("data=64Mi"))},
		{"an operation has passed its deadline", build.Set("web", build.Status(build.Operation(api.Moving, build.Due(-2*time.Hour))))},
		{"a scaling has failed, too", build.Set("web", refused, withScaling(api.Failed))},
	} {
		d, err := progress.FromRecord(&world.Observed{Set: row.set, Now: build.Now})
		if err != nil {
			t.Fatal(err)
		}
		file.Entry(t, row.situation, strings.Join(statusLines(d, row.set, build.Now, terminal.New(&bytes.Buffer{})), "\n"))
	}
}

func TestFailedOperationsHaveANextStep(t *testing.T) {
	file := golden.Open(t)
	for _, kind := range []api.Kind{api.KindResize, api.KindRollback} {
		for _, phase := range []api.Phase{api.Moving, api.Succeeded, api.Failed, api.Refused} {
			next := (&progress.Document{Namespace: "shop", Set: "web", Kind: kind, Phase: phase}).NextStep()
			file.Entry(t, string(kind)+" "+string(phase), next)
		}
	}
}
