package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/screen"
)

// TestManifestDiffShowsWhatToChange: only the named templates and fields change, and a template or field that agrees does not. If the diff
// lacked a field, the next apply of the manifest would ask for its former value.
func TestManifestDiffShowsWhatToChange(t *testing.T) {
	set := build.Set("web", build.Template("data", "10Gi", "standard"), build.Template("logs", "1Gi", "standard"))
	file := golden.Open(t)
	for _, request := range []string{"data=20Gi@fast", "data=5Gi:RWX,logs=2Gi%gold", "data=10Gi", "data=5Gi+",
		"data=20Gi,serviceName=db", "podManagementPolicy=Parallel,serviceName=web", "data/labels/tier=gold", "+cache=1Gi:RWO", "-logs",
		"serviceName=web"} {
		parsed, err := api.ParseRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		diff, err := manifestDiff(set, parsed)
		if err != nil {
			t.Fatal(err)
		}
		file.Entry(t, request, diff)
	}
	ofOperator := build.Set("web", build.Template("data", "10Gi", "standard"), build.ControlledBy("RabbitmqCluster", "mq"))
	parsed, err := api.ParseRequest("data=20Gi@fast")
	if err != nil {
		t.Fatal(err)
	}
	if diff, err := manifestDiff(ofOperator, parsed); err != nil || diff != "" {
		t.Errorf("an operator makes the set, and the manifest should change: %v\n%s", err, diff)
	}
}

// TestRefusedResizeShowsOnlyTheCauses: the rest of the plan cannot happen, and would hide them.
func TestRefusedResizeShowsOnlyTheCauses(t *testing.T) {
	var out bytes.Buffer
	if err := printRefusal(&out, refusedPlan()); err != nil {
		t.Fatal(err)
	}
	if want := "statefulset.apps/web: data=20Gi@fast would be refused:\n- QuotaExceeded: no room at all\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestResizeNeedsNoRequestAndNoRetryBefore: the command makes them.
func TestResizeNeedsNoRequestAndNoRetryBefore(t *testing.T) {
	for _, row := range []struct {
		waitsFor []api.Reason
		want     forecast.Verdict
	}{
		{[]api.Reason{api.NotRequested}, forecast.Proceeds},
		{[]api.Reason{api.NotRequested, api.AlreadyRefused}, forecast.Proceeds},
		{[]api.Reason{api.NotRequested, api.ClaimBusy}, forecast.Waits},
	} {
		d := &forecast.Document{Verdict: forecast.Waits}
		for _, reason := range row.waitsFor {
			d.Conditions = append(d.Conditions, resize.Problem{Reason: reason})
		}
		withoutOwnConditions(d)
		if wantLeft := len(row.waitsFor) - 1; d.Verdict != row.want || row.want == forecast.Waits && len(d.Conditions) != wantLeft {
			t.Errorf("%v: %s, %v", row.waitsFor, d.Verdict, d.Conditions)
		}
	}
}

// TestMistakesInARequestHaveACorrection: the error has the text to write.
func TestMistakesInARequestHaveACorrection(t *testing.T) {
	one := build.Set("web", build.Template("data", "64Mi", "fixed"))
	two := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Template("logs", "64Mi", "fixed"))
	for _, row := range []struct {
		on            *appsv1.StatefulSet
		request, want string
	}{
		{one, "64Mi", `"64Mi" names no volumeClaimTemplate. Write data=64Mi`},
		{one, "64Mi@fast", `"64Mi@fast" names no volumeClaimTemplate. Write data=64Mi@fast`},
		{one, "64Mi+", `"64Mi+" names no volumeClaimTemplate. Write data=64Mi+`},
		{two, "64Mi", `"64Mi" names no volumeClaimTemplate. Write one of data, logs before it, for example data=64Mi`},
		{build.Set("db"), "64Mi", `"64Mi" names no volumeClaimTemplate. Write TEMPLATE=64Mi`},
		{one, "data=64Mi@", `"data=64Mi@" names no StorageClass after the @. Write data=64Mi, or name the class: data=64Mi@CLASS`},
		{one, "data=64Mi@%gold", `"data=64Mi@%gold" names no StorageClass after the @. Write data=64Mi%gold, or name the class: ` +
			`data=64Mi@CLASS%gold`},
	} {
		_, err := newCluster(t, row.on).run(t, "resize", "sts/web", row.request)
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: %v, want %s", row.request, err, row.want)
		}
	}
	if _, err := newCluster(t, one).run(t, "resize", "sts/web", "data"); err == nil || !strings.Contains(err.Error(), `"data" has no size`) {
		t.Errorf("a template without a size: %v", err)
	}
}

// TestManifestChangesOnlyIfTheSetDoes: after a failure, the set is as its manifest says.
func TestManifestChangesOnlyIfTheSetDoes(t *testing.T) {
	const now, later = "Change", "When the resize has succeeded, change"
	for _, row := range []struct {
		situation string
		wait      bool
		outcome   error
		want      string
	}{
		{"it succeeded", true, nil, now},
		{"it failed", true, errors.New("operation 0123456789ab is Failed"), ""},
		{"it still runs after --timeout", true, fmt.Errorf("%w (1h)", errTimeout), later},
		{"the user has interrupted the wait", true, fmt.Errorf("%w. The operation continues", context.Canceled), later},
		{"it was only requested", false, nil, later},
	} {
		if got := (&resizing{wait: row.wait}).manifestWords(row.outcome); got != row.want {
			t.Errorf("%s: %q, want %q", row.situation, got, row.want)
		}
	}
}

// TestRefusedResizeNamesTheCommandForThePlan, which has the same request.
func TestRefusedResizeNamesTheCommandForThePlan(t *testing.T) {
	claim := build.Claim("data-web-0", "64Mi", build.OfClass("fixed"))
	c := &changing{Lists: build.EmptyLists(), change: -1}
	c.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"))}
	c.Lists["persistentvolumeclaims"] = []metav1.Object{claim}
	c.Lists["persistentvolumes"] = []metav1.Object{build.VolumeOf(claim)}
	c.Lists["namespaces"] = []metav1.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	out, err := c.run(t, "resize web data=128Mi@none --rolling --yes --context prod")
	if err == nil || len(c.wrote) > 0 || strings.Contains(out, "CLAIM") || !strings.Contains(out, "- UnknownClass: ") ||
		!strings.HasSuffix(err.Error(), "kubectl drydock plan -n shop sts/web --resize data=128Mi@none --strategy rolling") {
		t.Errorf("%v, wrote %v\n%s", err, c.wrote, out)
	}
}

// TestConsentNeedsATerminalOrYes: a script that forgets --yes changes nothing.
func TestConsentNeedsATerminalOrYes(t *testing.T) {
	seen := screen.New(t, 80, 24)
	for _, row := range []struct {
		answer string
		agreed bool
	}{{"y\n", true}, {"YES\n", true}, {"n\n", false}, {"\n", false}, {"yesterday\n", false}} {
		seen.Type(t, row.answer)
		var asked bytes.Buffer
		on := &tool{IOStreams: genericiooptions.IOStreams{In: seen.Terminal, Out: &bytes.Buffer{}, ErrOut: &asked}}
		err := on.consent(t.Context(), "Resize?", false)
		if (err == nil) != row.agreed || asked.String() != "Resize? [y/N] " {
			t.Errorf("%q: %v, asked %q", row.answer, err, asked.String())
		}
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	on := &tool{IOStreams: genericiooptions.IOStreams{In: seen.Terminal, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}}
	if err := on.consent(interrupted, "Resize?", false); err == nil {
		t.Error("an interrupted question counts as consent")
	}
	silent := &tool{IOStreams: genericiooptions.IOStreams{In: strings.NewReader("y\n"), Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}}
	if err := silent.consent(t.Context(), "Resize?", false); err == nil {
		t.Error("a pipe agreed")
	}
	if err := silent.consent(t.Context(), "Resize?", true); err != nil {
		t.Error(err)
	}
}

func TestAbortNamesTheRunningOperation(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Status(build.Operation(api.Moving))))
	if out, err := c.run(t, "abort", "sts/web"); err == nil || len(c.wrote) > 0 {
		t.Fatalf("without consent: %q, %v, wrote %q", out, err, c.wrote)
	}
	out, err := c.run(t, "abort", "sts/web", "--yes")
	if err != nil || len(c.wrote) != 1 || !strings.Contains(c.wrote[0], "drydock.dev~1abort value:"+build.ID) {
		t.Fatalf("%q, %v, wrote %q", out, err, c.wrote)
	}
	idle := newCluster(t, build.Set("web", build.Status(build.Operation(api.Succeeded))))
	if out, err := idle.run(t, "abort", "sts/web", "--yes"); err == nil || len(idle.wrote) > 0 {
		t.Errorf("nothing runs: %q, %v, wrote %q", out, err, idle.wrote)
	}
	scaled := newCluster(t, build.Set("web", withScaling(api.Scaling)))
	out, err = scaled.run(t, "abort", "sts/web", "--yes")
	if err == nil || !strings.Contains(err.Error(), "kubectl describe -n shop scaler web") || len(scaled.wrote) > 0 {
		t.Errorf("a scaling runs: %q, %v, wrote %q", out, err, scaled.wrote)
	}
}

// withScaling returns an option that adds the record of a scaling by Scaler web.
func withScaling(phase api.Phase) build.Option {
	doc := &api.Scale{Scaler: api.ScalerRef{Name: "web", UID: "uid-web"}, Header: api.Header{Version: api.RecordVersion, Operation: build.ID,
		Kind: api.KindScale, Phase: phase, Request: "2", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}}}
	return build.Annotation(api.ScaleAnnotation, doc.Encode())
}

// withPausedScaler returns an option that adds the record of the paused Scaler web, which has stopped the set.
func withPausedScaler() build.Option {
	return func(o metav1.Object) {
		withScaling(api.Succeeded)(o)
		record := strings.Replace(o.GetAnnotations()[api.ScaleAnnotation], `"request"`, `"paused":true,"request"`, 1)
		build.Annotation(api.ScaleAnnotation, record)(o)
	}
}

func TestSleepAndWakeWriteTheAnnotations(t *testing.T) {
	timeout := build.Annotation(api.IdleTimeoutAnnotation, "30m")
	paused := build.Annotation(api.PausedAnnotation, "true")
	file := golden.Open(t)
	for _, row := range []struct {
		situation, args string
		options         []build.Option
	}{
		{"a set with a timeout sleeps until it is used", "sleep sts/web --yes", []build.Option{timeout}},
		{"a set without a timeout sleeps until it is woken", "sleep sts/web --yes", nil},
		{"a set with a timeout sleeps until it is woken", "sleep sts/web --yes --until-woken", []build.Option{timeout}},
		{"a set at zero", "sleep sts/web --yes", []build.Option{timeout, build.Replicas(0)}},
		{"a set with invalid annotations", "sleep sts/web --yes", []build.Option{build.Annotation(api.IdleTimeoutAnnotation, "soon")}},
		{"a paused set wakes", "wake sts/web --for 2h", []build.Option{paused, build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep))}},
		{"a set at zero without a sleep", "wake sts/web", []build.Option{timeout, build.Replicas(0)}},
		{"a paused set at zero that a user scaled", "wake sts/web", []build.Option{paused, build.Replicas(0)}},
		{"a paused set that runs wakes", "wake sts/web", []build.Option{paused}},
		{"a set that stays awake for longer already", "wake sts/web", []build.Option{timeout,
			build.Annotation(api.AwakeUntilAnnotation, "2030-01-01T00:00:00Z")}},
		{"an awake set stays awake", "wake sts/web", []build.Option{timeout}},
		{"a set that is being deleted", "wake sts/web", []build.Option{build.Replicas(3), build.Deleting()}},
		{"a set with wake-replicas and an invalid timeout", "wake sts/web", []build.Option{build.Replicas(0),
			build.Annotation(api.WakeReplicasAnnotation, "3"), build.Annotation(api.IdleTimeoutAnnotation, "soon")}},
		{"a set whose Scaler is paused", "wake sts/web", []build.Option{build.Replicas(0), withPausedScaler()}},
		{"a paused set whose Scaler is paused", "wake sts/web", []build.Option{paused, build.Replicas(0), withPausedScaler()}},
		{"a set whose Scaler has the count 0", "wake sts/web", []build.Option{build.Replicas(0), withScaling(api.Succeeded)}},
		{"a set that its operator has stopped", "wake sts/web", []build.Option{build.Replicas(0), build.ControlledBy("MariaDB", "main")}},
		{"a paused set that its operator has stopped", "wake sts/web", []build.Option{paused, build.Replicas(0),
			build.ControlledBy("MariaDB", "main")}},
		{"a set at zero whose Scaler is paused", "sleep sts/web --yes", []build.Option{build.Replicas(0), withPausedScaler()}},
	} {
		c := newCluster(t, build.Set("web", row.options...))
		out, err := c.runAt(t, build.Now, strings.Fields(row.args)...)
		file.Entry(t, row.situation, fmt.Sprintf("kubectl drydock %s\n%serror: %v\nwrites: %s", row.args, out, err, strings.Join(c.wrote, "\n")))
	}
}

// TestSleepAsksBeforeItStopsPods: without consent, nothing is written.
func TestSleepAsksBeforeItStopsPods(t *testing.T) {
	timeout := build.Annotation(api.IdleTimeoutAnnotation, "30m")
	for _, row := range []struct {
		args, answer string
		options      []build.Option
		asked        string
		written      bool
	}{
		{"sleep sts/web", "y\n", []build.Option{build.Replicas(3)}, "Put StatefulSet shop/web to sleep? Its 3 pods stop. [y/N] ", true},
		{"sleep sts/web", "n\n", nil, "Put StatefulSet shop/web to sleep? Its pod stops. [y/N] ", false},
		{"sleep sts/web", "n\n", []build.Option{timeout, build.Label(api.GroupLabel, "orders")},
			"Put group orders of StatefulSet shop/web to sleep? All pods of the group stop. [y/N] ", false},
		{"sleep sts/web", "", nil, "", false}, // no terminal
		{"sleep sts/web --yes", "", nil, "", true},
		{"sleep sts/web", "", []build.Option{build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep))}, "", true},
	} {
		c := newCluster(t, build.Set("web", row.options...))
		useServer(t, c.URL)
		var asked bytes.Buffer
		streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &asked}
		if row.answer != "" {
			seen := screen.New(t, 80, 24)
			seen.Type(t, row.answer)
			streams.In = seen.Terminal
		}
		root := New(streams)
		root.SetArgs(append(strings.Fields(row.args), "-n", "shop"))
		err := root.ExecuteContext(t.Context())
		if asked.String() != row.asked || len(c.wrote) > 0 != row.written || (err == nil) != row.written {
			t.Errorf("%+v: asked %q, wrote %v, %v", row, asked.String(), c.wrote, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{0: nil, 1: errors.New("failed"), 3: fmt.Errorf("waiting: %w", errTimeout)} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
}

// TestWaitEndsAfterItsTimeout with the exit code 3, although the operation runs on.
func TestWaitEndsAfterItsTimeout(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Status(build.Operation(api.Moving))))
	start := time.Now()
	_, err := c.run(t, "status", "sts/web", "--wait", "--timeout", "50ms")
	if ExitCode(err) != ExitTimeout || errors.Is(err, context.Canceled) || time.Since(start) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

// TestSameRequestAfterAFailureIsRetried: the same text alone has no effect again.
func TestSameRequestAfterAFailureIsRetried(t *testing.T) {
	o := &resizing{}
	o.overrides.Request = "data=128Mi" // the request of build.Operation
	for phase, want := range map[api.Phase]bool{api.Failed: true, api.Refused: true, api.Succeeded: false, api.Moving: false} {
		patch, err := o.patch(build.Set("web", build.Status(build.Operation(phase))))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(fmt.Sprint(patch.Actions()), "retry"); got != want {
			t.Errorf("%s: retry %v, want %v", phase, got, want)
		}
	}
}

// TestFollowSurvivesAnAPIServerThatDoesNotAnswer, but does not start without one.
func TestFollowSurvivesAnAPIServerThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	config := genericclioptions.NewConfigFlags(false)
	config.APIServer, config.Insecure, config.Namespace = &c.URL, ptr.To(true), ptr.To("shop")
	s, err := (&tool{config: config}).open("sts/web")
	if err != nil {
		t.Fatal(err)
	}
	s.refresh = time.Millisecond
	c.fails.Store(true)
	looks := 0
	look := func(*world.Observed) (bool, error) {
		looks++
		if looks == 1 {
			c.fails.Store(true)
			time.AfterFunc(20*time.Millisecond, func() { c.fails.Store(false) })
		}
		return looks == 2, nil
	}
	if err := s.follow(t.Context(), 0, look); err == nil || looks > 0 {
		t.Errorf("a first look without an answer: %v, %d looks", err, looks)
	}
	c.fails.Store(false)
	if err := s.follow(t.Context(), 0, look); err != nil || looks != 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

// TestFollowWaitsForASetThatIsCreatedAgain: a resize deletes the set and creates it again. A set that never existed is an error.
func TestFollowWaitsForASetThatIsCreatedAgain(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	config := genericclioptions.NewConfigFlags(false)
	config.APIServer, config.Insecure, config.Namespace = &c.URL, ptr.To(true), ptr.To("shop")
	s, err := (&tool{config: config}).open("sts/web")
	if err != nil {
		t.Fatal(err)
	}
	s.refresh = time.Millisecond
	looks := 0
	err = s.follow(t.Context(), 0, func(o *world.Observed) (bool, error) {
		looks++
		if looks == 1 {
			c.gone.Store(true)
			time.AfterFunc(20*time.Millisecond, func() { c.gone.Store(false) })
		}
		return looks == 2, nil
	})
	if err != nil || looks != 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
	c.gone.Store(true)
	if err := s.follow(t.Context(), 0, func(*world.Observed) (bool, error) { return true, nil }); err == nil {
		t.Error("a set that does not exist was followed")
	}
}

// TestRetryUnderOperator: the retry names its operation, so a cleanup that was refused does not come first, and what was rolled back can be
// asked for again.
func TestRetryUnderOperator(t *testing.T) {
	failed := build.Operation(api.Failed, func(r *api.Resize) { r.FailedAt = api.Moving })
	rolledBack := build.Operation(api.Succeeded, build.RollbackOf("ba9876543210"))
	refused := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "feedfeedfeed", Kind: api.KindCleanup,
		Phase: api.Refused, Reason: api.DeletesClaims, Set: failed.Set, Attempt: 1}}
	for name, record := range map[string]*api.Resize{"failed": failed, "rolled back": rolledBack} {
		set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Resize(record.Request), build.Status(record),
			build.ControlledBy("Database", "main"), build.Annotation(api.CleanupTemplateAnnotation, "{}"),
			build.Annotation(api.CleanupAnnotation, refused.Encode()))
		found, err := retryable(set)
		if err != nil || found.Head().Operation != record.Operation {
			t.Errorf("%s: kubectl drydock retry repeats %v, %v", name, found, err)
		}
		o := &resizing{}
		o.overrides.Request = record.Request
		if _, err := o.patch(set); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		set.Annotations[api.RetryAnnotation] = record.Operation
		if !operation.Of(set).ResizeRetried(set) {
			t.Errorf("%s: what the commands write is no retry", name)
		}
	}
}

// changing is an API server on which another user changes set web after the reads of a command and before its write.
type changing struct {
	build.Lists
	reads, change int // the number of reads of the set, and the read before which it changes
	changed       *appsv1.StatefulSet
	wrote         []string
}

// ServeHTTP answers like an API server.
func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isSet := path.Base(r.URL.Path) == "web"
	switch {
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		c.wrote = append(c.wrote, string(body))
		answer(w, http.StatusOK, c.Lists["statefulsets"][0])
		return
	case isSet && r.Method == http.MethodGet:
		if c.reads++; c.reads == c.change {
			c.Lists["statefulsets"] = []metav1.Object{c.changed}
		}
	}
	c.Lists.ServeHTTP(w, r)
}

// run runs kubectl drydock on the server.
func (c *changing) run(t *testing.T, args string) (string, error) {
	t.Helper()
	server := httptest.NewTLSServer(c)
	defer server.Close()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return build.Now })
	root.SetArgs(append(strings.Fields(args), "-n", "shop"))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNothingIsRequestedOnAnotherSetThanShown: between the plan and the answer, another user can delete the set and create it again, change
// it, or begin an operation. The plan is then wrong.
func TestNothingIsRequestedOnAnotherSetThanShown(t *testing.T) {
	set := func(options ...build.Option) *appsv1.StatefulSet {
		return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed")}, options...)...)
	}
	generation := build.Edit(func(s *appsv1.StatefulSet) { s.Generation++ })
	for _, row := range []struct {
		situation string
		changed   *appsv1.StatefulSet
		written   bool
	}{
		{"the set is the same", set(), true},
		{"a controller wrote the status", set(build.ReplicaCounts(1, 0)), true},
		{"the set was deleted and created again", set(build.Edit(func(s *appsv1.StatefulSet) { s.UID = types.UID("uid-new") })), false},
		{"its spec changed", set(generation), false},
		{"another resize was requested", set(build.Resize("data=1Gi")), false},
		{"an operation began", set(build.Status(build.Operation(api.Moving))), false},
	} {
		claim := build.Claim("data-web-0", "64Mi", build.OfClass("fixed"))
		for args, objects := range map[string][]metav1.Object{
			"resize web data=128Mi --yes": {build.VolumeOf(claim)},
			"rollback web --yes": {build.VolumeOf(claim), oldVolume(build.ID, "pv-a",
				build.Annotation(api.RetainedUntilAnnotation, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))},
		} {
			c := &changing{Lists: build.EmptyLists(), change: 3, changed: row.changed}
			c.Lists["statefulsets"] = []metav1.Object{set()}
			c.Lists["persistentvolumeclaims"] = []metav1.Object{claim}
			c.Lists["persistentvolumes"] = objects
			c.Lists["storageclasses"] = []metav1.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed"},
				Provisioner: "csi.example.com", AllowVolumeExpansion: ptr.To(true)}}
			c.Lists["namespaces"] = []metav1.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
			out, err := c.run(t, args)
			if written := len(c.wrote) > 0; written != row.written || (err == nil) != row.written {
				t.Errorf("%s: %s wrote %q: %v\n%s", row.situation, args, c.wrote, err, out)
			}
		}
	}
}

// TestResizeRetriesNoCleanup: the annotation retry means a failed cleanup first, which deletes claims when its pods succeed.
func TestResizeRetriesNoCleanup(t *testing.T) {
	cleanup := &api.Cleanup{Header: build.Operation(api.Failed).Header}
	cleanup.Kind = api.KindCleanup
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(build.Operation(api.Failed)),
		build.Annotation(api.CleanupAnnotation, cleanup.Encode()),
		build.Annotation(api.CleanupTemplateAnnotation, "{}"))
	o := &resizing{}
	o.overrides.Request = "data=128Mi" // the request of build.Operation
	if patch, err := o.patch(set); err == nil {
		t.Errorf("writes %v", patch.Actions())
	}
}
