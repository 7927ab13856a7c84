package idle

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func TestMemberCheckThatCanBeRead(t *testing.T) {
	for text, want := range map[string]Probe{
		"http:8008/replica":         {Kind: ProbeHTTP, Port: 8008, Path: "/replica"},
		"https:8443/r host=db.shop": {Kind: ProbeHTTPS, Port: 8443, Path: "/r", Host: "db.shop"},
		"tcp:5432":                  {Kind: ProbeTCP, Port: 5432},
	} {
		got, err := MemberCheckOf(build.Set("web", build.Annotation(api.MemberCheckAnnotation, text)))
		if err != nil || *got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	if got, err := MemberCheckOf(build.Set("web")); got != nil || err != nil {
		t.Errorf("a set without a check has %v, %v", got, err)
	}
}

func TestMemberCheckThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      `"" is no kind of probe; write "http:PORT/PATH"`,
		"prometheus:up":                         `"prometheus" is asked of no pod; write`,
		"exec:cat":                              `"exec" is no kind of probe`,
		"http:web/":                             `"web" is no port; write`,
		"tcp:70000":                             `"70000" is no port`,
		"http:80/" + strings.Repeat("x", 1<<20): "it has more than 1024 bytes; write",
		"http:80/a b":                           "has blanks",
	} {
		got, err := MemberCheckOf(build.Set("web", build.Annotation(api.MemberCheckAnnotation, text)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "prometheus:QUERY") || len(err.Error()) > 300 {
			t.Errorf("%.40s is %v, %v", text, got, err)
		}
	}
}
