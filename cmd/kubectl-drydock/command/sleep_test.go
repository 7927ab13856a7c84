package command

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/screen"
)

// TestSleepStopsOnlyWhatTheUserAgreedTo: a question can stay open for a long time. Before the answer, another user puts the set into a
// group, or scales it, or creates another set with its name.
func TestSleepStopsOnlyWhatTheUserAgreedTo(t *testing.T) {
	timeout := build.Annotation(api.IdleTimeoutAnnotation, "30m")
	for situation, row := range map[string]struct {
		changed *appsv1.StatefulSet
		written bool
	}{
		"nothing changed":              {build.Set("web", timeout), true},
		"the set joined a group":       {build.Set("web", timeout, build.Label(api.GroupLabel, "orders")), false},
		"the set has more pods":        {build.Set("web", timeout, build.Replicas(5)), false},
		"the set was created again":    {build.Set("web", timeout, build.Edit(func(s *appsv1.StatefulSet) { s.UID = "another" })), false},
		"it no longer wakes when used": {build.Set("web"), false},
	} {
		c := &changing{Lists: build.EmptyLists(), change: 2, changed: row.changed}
		c.Lists["statefulsets"] = []metav1.Object{build.Set("web", timeout)}
		server := httptest.NewTLSServer(c)
		useServer(t, server.URL)
		seen := screen.New(t, 80, 24)
		seen.Type(t, "y\n")
		root := New(genericiooptions.IOStreams{In: seen.Terminal, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}})
		root.SetArgs([]string{"sleep", "sts/web", "-n", "shop"})
		err := root.ExecuteContext(t.Context())
		server.Close()
		if (err == nil) != row.written || len(c.wrote) > 0 != row.written {
			t.Errorf("%s: wrote %q, %v", situation, c.wrote, err)
		}
	}
}

// TestWaitForSleepEnds: the set was used while it fell asleep, so the sleep has ended, and no other follows.
func TestWaitForSleepEnds(t *testing.T) {
	for phase, row := range map[api.Phase]struct{ ended, failed bool }{
		api.Stopping: {false, false}, api.Asleep: {true, false}, api.Failed: {true, true}, api.Succeeded: {true, true},
	} {
		set := build.Set("web", build.WithSleep(build.Sleep(phase)))
		if ended, err := (&sleeping{ended: "0123456789ab"}).asleep(set); ended != row.ended || (err != nil) != row.failed {
			t.Errorf("%s: ended %v, %v", phase, ended, err)
		}
	}
}

// TestWakeStartsARestoredSet: a set was restored from a backup of a sleeping set. The command starts it with the count from the backup, if
// nothing else decides its count.
func TestWakeStartsARestoredSet(t *testing.T) {
	former := build.Sleep(api.Asleep)
	former.Set.UID = "uid-before"
	restored := build.Annotation(api.SleepAnnotation, former.Encode())
	for situation, row := range map[string]struct {
		options []build.Option
		starts  bool
	}{
		"restored":            {[]build.Option{build.Replicas(0), restored}, true},
		"restored and paused": {[]build.Option{build.Replicas(0), restored, build.Paused()}, true},
		"its operator counts": {[]build.Option{build.Replicas(0), restored, build.ControlledBy("Database", "main")}, false},
		"without a record":    {[]build.Option{build.Replicas(0)}, false},
	} {
		c := newCluster(t, build.Set("web", row.options...))
		out, err := c.run(t, "wake", "sts/web")
		written := fmt.Sprint(c.wrote)
		if starts := strings.Contains(written, "path:/spec/replicas value:3"); starts != row.starts || (err == nil) != row.starts {
			t.Errorf("%s: wrote %s: %v\n%s", situation, written, err, out)
		}
	}
}

// TestWakeRefusesASetThatAUserScaledToZero: Drydock has no sleep of it, so nothing restores replicas when drydock.dev/paused is removed.
func TestWakeRefusesASetThatAUserScaledToZero(t *testing.T) {
	for situation, options := range map[string][]build.Option{
		"without the annotation": {build.Replicas(0)},
		"paused":                 {build.Replicas(0), build.Annotation(api.PausedAnnotation, "true")},
		"paused is false":        {build.Replicas(0), build.Annotation(api.PausedAnnotation, "false")},
	} {
		c := newCluster(t, build.Set("web", options...))
		if out, err := c.run(t, "wake", "sts/web", "--wait", "--timeout", "2s"); ExitCode(err) != 1 || len(c.wrote) > 0 {
			t.Errorf("%s: exit code %d, wrote %v: %v\n%s", situation, ExitCode(err), c.wrote, err, out)
		}
	}
}
