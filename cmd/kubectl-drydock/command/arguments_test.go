package command

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestSetIsNamedAsInKubectl: in one argument or in two.
func TestSetIsNamedAsInKubectl(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	for _, args := range []string{"status web", "status sts/web", "status sts web", "status statefulset.apps web",
		"status statefulsets.v1.apps/web",
		"scale sts web 1", "grow statefulset web"} {
		if out, err := c.run(t, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
}

// TestMistakesInArgumentsAreExplained: each error says what to write.
func TestMistakesInArgumentsAreExplained(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	file := golden.Open(t)
	for _, args := range []string{"approve", "status sts/web sts/db", "status pod/web-0", "status pod web-0", "status sts/", "status /web",
		"status web/", "list sts", "resize sts/web", "wake sts/web --fast", "wake sts/web --timeout 5m", "sleep sts/web --timeout 5m",
		"scale sts/web 1 --timeout 5m", "wake sts/web --wait --timeout -5m", "wake sts/web --for -1h"} {
		out, err := c.run(t, strings.Fields(args)...)
		if err == nil || out != "" {
			t.Errorf("%s: %q, %v", args, out, err)
			continue
		}
		file.Entry(t, "kubectl drydock "+args, "error: "+err.Error())
	}
	if len(c.wrote) > 0 {
		t.Errorf("writes %v", c.wrote)
	}
}

// TestEmptyListSaysWhy on the standard error, so that a script reads nothing.
func TestEmptyListSaysWhy(t *testing.T) {
	some, none := newLogServer(t), newLogServer(t)
	some.Lists["statefulsets"] = []metav1.Object{build.Set("web")}
	file := golden.Open(t)
	for _, row := range []struct {
		on   *logServer
		args string
	}{{none, "list"}, {none, "list -A"}, {none, "list -l app=db"}, {some, "list -l app=db"}, {some, "list -A -l app=db -o name"}} {
		out, errOut, err := row.on.run(t, strings.Fields(row.args)...)
		if out != "" || err != nil {
			t.Errorf("%s: %q, %v", row.args, out, err)
		}
		file.Entry(t, fmt.Sprintf("%s, and %d sets have opted in", row.args, len(row.on.Lists["statefulsets"])), errOut)
	}
}

// TestFormatsForProgramsAreAlwaysDocuments, also if there is nothing to show.
func TestFormatsForProgramsAreAlwaysDocuments(t *testing.T) {
	template := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	for _, options := range [][]build.Option{nil, {template, build.Template("data", "1Gi", "x")}} {
		c := newCluster(t, build.Set("web", options...))
		if out, err := c.run(t, "cleanup", "sts/web", "-o", "json"); err != nil || out != "null\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
}
