package probe

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestValidMemberChecks(t *testing.T) {
	for text, want := range map[string]Probe{
		"http:8008/replica":         {Kind: HTTP, Port: 8008, Path: "/replica"},
		"https:8443/r host=db.shop": {Kind: HTTPS, Port: 8443, Path: "/r", Host: "db.shop"},
		"tcp:5432":                  {Kind: TCP, Port: 5432},
	} {
		got, err := ParseMemberCheck(build.Set("web", build.Annotation(api.MemberCheckAnnotation, text)))
		if err != nil || *got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	if got, err := ParseMemberCheck(build.Set("web")); got != nil || err != nil {
		t.Errorf("a set without a check has %v, %v", got, err)
	}
}

func TestInvalidMemberChecks(t *testing.T) {
	mistakes := map[string]string{
		"nothing":             "",
		"Prometheus":          "prometheus:up",
		"an unknown kind":     "exec:cat",
		"the name of a port":  "http:web/",
		"a port too large":    "tcp:70000",
		"a megabyte":          "http:80/" + strings.Repeat("x", 1<<20),
		"a path with a blank": "http:80/a b",
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		t.Run(name, func(t *testing.T) {
			got, err := ParseMemberCheck(build.Set("web", build.Annotation(api.MemberCheckAnnotation, mistakes[name])))
			if err == nil || strings.Contains(err.Error(), "prometheus:QUERY") || len(err.Error()) > 300 {
				t.Fatalf("%v, %v", got, err)
			}
			file.Entry(t, name, err.Error())
		})
	}
}
