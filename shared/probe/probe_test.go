package probe

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Probe{
		"http:8080/in-use":            {Kind: HTTP, Port: 8080, Path: "/in-use"},
		"http:8080":                   {Kind: HTTP, Port: 8080, Path: "/"},
		"http:1/":                     {Kind: HTTP, Port: 1, Path: "/"},
		"http:80/a/b?c=d:e":           {Kind: HTTP, Port: 80, Path: "/a/b?c=d:e"},
		"http:80//elsewhere.example/": {Kind: HTTP, Port: 80, Path: "//elsewhere.example/"}, // a path, not a host
		"http:80/a host=shop.example": {Kind: HTTP, Port: 80, Path: "/a", Host: "shop.example"},
		"https:8443":                  {Kind: HTTPS, Port: 8443, Path: "/"},
		"https:8443/a host=db":        {Kind: HTTPS, Port: 8443, Path: "/a", Host: "db"},
		"tcp:65535":                   {Kind: TCP, Port: 65535},
		"prometheus:sum(x{a=\"b\"}) ": {Kind: Prometheus, Query: `sum(x{a="b"})`},
		"prometheus:" + strings.Repeat("x", maxQueryBytes): {Kind: Prometheus, Query: strings.Repeat("x", maxQueryBytes)},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%.40s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%.40s (-want +got)\n%s", text, diff)
		}
		if again, err := Parse(got.String()); err != nil || *again != *got {
			t.Errorf("%.40s is written as %q, which is %v, %v", text, got, again, err)
		}
	}
}

func TestParseRejectsInvalidProbes(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                   "",
		"no kind":                   "8080",
		"an unknown kind":           "udp:53",
		"a kind in capitals":        "HTTP:80/",
		"a URL":                     "http://web:8080/in-use",
		"a host":                    "http:web:8080/in-use",
		"a host before the path":    "http:8080@elsewhere.example/",
		"no port":                   "http:/in-use",
		"port 0":                    "tcp:0",
		"a port too large":          "tcp:65536",
		"a port below zero":         "tcp:-1",
		"the name of a port":        "tcp:postgres",
		"a path behind a TCP port":  "tcp:80/x",
		"a path with a blank":       "http:80/a b",
		"a path with a new line":    "http:80/a\r\nHost: elsewhere.example",
		"a path with a fragment":    "http:80/a#b",
		"no host":                   "http:80/a host=",
		"a host with a port":        "http:80/a host=shop.example:80",
		"a host with a new line":    "http:80/a host=shop.example\r\nCookie: x",
		"two hosts":                 "http:80/a host=a host=b",
		"no query":                  "prometheus:",
		"a query of spaces":         "prometheus:  ",
		"a query that is too large": "prometheus:" + strings.Repeat("x", maxQueryBytes+1),
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s is accepted as %v", name, got)
		}
	}
}

func FuzzParseProbe(f *testing.F) {
	for _, text := range []string{"", ":", "http:8080/in-use", "http:80", "http:80//x@y", "http:+80/", "http:080/%zz", "https:1/ host=x",
		"tcp:5432", "tcp:5432:1", "prometheus:sum(x) > 0", "prometheus: \xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(p.String()); err != nil || *again != *p {
			t.Fatalf("%q is written as %q, which is %v, %v", text, p, again, err)
		}
		if p.Kind != Prometheus && (p.Port < 1 || p.Port > 65535) || p.Kind == Prometheus && p.Query == "" {
			t.Fatalf("%q is %+v", text, p)
		}
		if p.Kind != HTTP && p.Kind != HTTPS {
			return
		}
		// An invalid URL is an error later. A valid one has no other host than the pod.
		if u, err := url.Parse("http://10.0.0.1:80" + p.Path); err == nil && (u.Host != "10.0.0.1:80" || u.User != nil) {
			t.Errorf("%q asks %s", text, u.Host)
		}
	})
}

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
