package command

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestSetsAreListed: status without a name shows what list shows.
func TestSetsAreListed(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Status(build.Operation(api.Moving)), build.Label("app", "web")))
	file := golden.Open(t)
	for _, flags := range []string{"", "-o name", "-o json", "-l app=db", "-l app=web", "-l app=(", "-o party"} {
		listed, failure := c.runAt(t, build.Now, append([]string{"list"}, strings.Fields(flags)...)...)
		out, err := c.runAt(t, build.Now, append([]string{"status"}, strings.Fields(flags)...)...)
		if out != listed || (err == nil) != (failure == nil) {
			t.Errorf("status %s shows\n%s%v\nlist shows\n%s%v", flags, out, err, listed, failure)
		}
		if err != nil {
			out += "error: " + err.Error()
		}
		file.Entry(t, "list "+flags, out)
	}
}

// TestSetsWithoutTheirLabelAreNamed: an operator has removed the label, and the set has annotations that have no effect now.
func TestSetsWithoutTheirLabelAreNamed(t *testing.T) {
	const named = "has annotations of Drydock, but not the label"
	unlabelled := build.Label(api.ManagedLabel, "")
	owned := func(o metav1.Object) {
		build.ControlledBy("RabbitmqCluster", "mq")(o)
		o.GetOwnerReferences()[0].APIVersion = "rabbitmq.com/v1beta1"
	}
	request := build.Resize("data=20Gi")
	for name, c := range map[string]struct {
		options []build.Option
		want    string
	}{
		"opted in":                {[]build.Option{request}, ""},
		"never used":              {[]build.Option{unlabelled}, ""},
		"of nobody":               {[]build.Option{unlabelled, request}, "kubectl label -n shop sts web drydock.dev/managed=true"},
		"of an operator":          {[]build.Option{unlabelled, request, owned}, "rabbitmqclusters.rabbitmq.com mq drydock.dev/managed=true"},
		"not selected by a label": {[]build.Option{unlabelled, request, build.Label("app", "other")}, ""},
	} {
		out, err := newCluster(t, build.Set("web", append([]build.Option{build.Label("app", "web")}, c.options...)...)).
			runAt(t, build.Now, "list", "-l", "app=web")
		if err != nil || strings.Contains(out, named) != (c.want != "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestFlagsOfTheListNeedNoName: flags that have no effect are refused.
func TestFlagsOfTheListNeedNoName(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	file := golden.Open(t)
	for _, args := range []string{
		"status --watch", "status --wait", "status sts/web -A", "status sts/web -l app=web", "status sts/web -o wide",
	} {
		out, err := c.runAt(t, build.Now, strings.Fields(args)...)
		if err == nil {
			t.Errorf("%s: no error, output %q", args, out)
			continue
		}
		file.Entry(t, args, "error: "+err.Error())
	}
}

// TestPausedSetSleepsUntilItIsWoken: no use of the set wakes it, so the message of its record would be wrong.
func TestPausedSetSleepsUntilItIsWoken(t *testing.T) {
	asleep := build.Sleep(api.Asleep, func(s *api.Sleep) { s.Message = "the set gets its 3 replicas back when it is needed" })
	for paused, want := range map[string]string{"true": "asleep until kubectl drydock wake", "false": "when it is needed"} {
		set := build.Set("web", build.Replicas(0), build.WithSleep(asleep), build.Annotation(api.PausedAnnotation, paused))
		out, err := newCluster(t, set).runAt(t, build.Now, "list")
		if waited := sleepLines(set)[0]; err != nil || !strings.Contains(out, want) || !strings.Contains(waited, want) {
			t.Errorf("paused=%s: %v\n%s%s", paused, err, out, waited)
		}
	}
}
