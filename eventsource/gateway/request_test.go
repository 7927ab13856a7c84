package gateway

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/test/golden"
)

var bounds = Options{LongestSession: time.Hour, DefaultTimeout: time.Minute, Namespace: "dock"}

func TestNames(t *testing.T) {
	requests := map[string]struct{ text string }{
		"short":                            {"shop/web"},
		"Sablier's":                        {"statefulset_shop_web_3"},
		"Sablier's with another delimiter": {"statefulset:shop:web:1"},
		"Sablier's with slashes":           {"statefulset/shop/web/0"},
		"Sablier's with a pipe":            {"statefulset|shop|web|1"},
		"Sablier's with two characters as the delimiter":   {"statefulset__shop__web__1"},
		"Sablier's with a word as the delimiter":           {"statefulset=AND=shop=AND=web=AND=1"},
		"Sablier's with hyphens":                           {"statefulset-shop-web-1"},
		"Sablier's with hyphens, and a hyphen in the name": {"statefulset-shop-my-web-1"},
		"Sablier's with dots":                              {"statefulset.shop.web.1"},
		"Sablier's with a character outside ASCII":         {"statefulset§shop§web§1"},
		"only the kind":                                    {"statefulset"},
		"a namespace with the name of the kind":            {"statefulset/web"},
		"a name with dots":                                 {"shop/web.eu"},
		"without a namespace":                              {"web"},
		"too few parts":                                    {"statefulset_shop_web"},
		"too many parts":                                   {"statefulset_shop_web_1_2"},
		"a Deployment":                                     {"deployment_shop_web_1"},
		"two delimiters":                                   {"statefulset_shop:web_1"},
		"replicas that are no number":                      {"statefulset_shop_web_many"},
		"negative replicas":                                {"statefulset_shop_web_-1"},
		"replicas above the limit":                         {"statefulset_shop_web_99999999999"},
		"another path":                                     {"shop/.."},
		"another resource":                                 {"shop/web?x=1"},
		"an empty namespace":                               {"/web"},
		"an empty name":                                    {"statefulset_shop__1"},
		"control characters":                               {"\x00/\xff"},
		"a name of 1,000 letters":                          {"shop/" + strings.Repeat("a", 1000)},
		"a namespace with a dot":                           {"sh.op/web"},
		"a capital letter":                                 {"shop/Web"},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		row := requests[name]
		t.Run(name, func(t *testing.T) {
			ref, err := ParseName(row.text, "")
			got := ref.Ref.String()
			if err != nil {
				got = err.Error()
			}
			if len(got) > 300 {
				t.Errorf("%d bytes", len(got))
			}
			file.Entry(t, name, got)
		})
	}
}

// FuzzNames: an accepted name is a Kubernetes name, and its text form parses to the same name.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"shop/web", "statefulset_shop_web_1", "a/b/c/d", "_", "statefulset#x#y#0", "\xff/\xfe"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := ParseName(text, "shop")
		if err != nil {
			return
		}
		ref := name.Ref
		if len(validation.IsDNS1123Label(ref.Namespace))+len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
			t.Errorf("%q is %q", text, ref)
		}
		if again, err := ParseName(ref.String(), ""); err != nil || again.Ref != ref {
			t.Errorf("%q is %q, which is %q: %v", text, ref, again, err)
		}
	})
}

func TestQueries(t *testing.T) {
	many := strings.Repeat("shop/web,", 200)
	distinct := ""
	for _, a := range "abcdefgh" {
		for _, b := range "abcdefgh" {
			distinct += "shop/" + string(a) + string(b) + ","
		}
	}
	requests := map[string]struct{ query string }{
		"as the Traefik plugin sends it": {
			"display_name=shop%40file&names=statefulset_shop_web_1&names=shop%2Fdb&refresh_frequency=3s" +
				"&session_duration=10m&show_details=true&theme=ghost"},
		"as the Caddy plugin sends it":     {"group=shop%2Fshop&session_duration=30m0s&timeout=1m30s"},
		"as the nginx script sends it":     {"session_duration=&display_name=&theme=&refresh_frequency=&show_details=&names=shop%2Fweb"},
		"with commas":                      {"names=shop/web,+shop/db,,"},
		"the same name often":              {"names=" + many},
		"a group of the default namespace": {"group=shop"},
		"durations above their limits":     {"group=g&session_duration=9000h&timeout=1h&refresh_frequency=1h"},
		"too short a refresh":              {"group=g&refresh_frequency=1ms"},
		"a title with control characters":  {"group=g&display_name=%20a%0A%00b%E2%80%AEc%FF%20"},
		"unknown parameters":               {"group=g&desiredReplicas=9&x=y"},

		"an empty query":                           {""},
		"empty names and an empty group":           {"names=,,&group="},
		"names and a group":                        {"names=shop/web&group=g"},
		"too many names":                           {"names=" + distinct},
		"a bad name":                               {"names=shop/web&names=We_b"},
		"a session that is no duration":            {"group=g&session_duration=soon"},
		"a session of 0s is raised to the minimum": {"group=g&session_duration=0s"},
		"a session below the minimum":              {"group=g&session_duration=1ms"},
		"a set of the default namespace":           {"names=web"},
		"an optional set":                          {"names=shop/web&names=optional:shop/db"},
		"optional once and required once":          {"names=shop/web,optional:statefulset_shop_web_1"},
		"an optional set with another delimiter":   {"names=optional:statefulset:shop:db:1"},
		"a negative session":                       {"group=g&session_duration=-5m"},
		"a bad timeout":                            {"group=g&timeout=5"},
		"a bad refresh":                            {"group=g&refresh_frequency=%3Cscript%3E"},
		"details that are no boolean":              {"group=g&show_details=maybe"},
		"a selector for a group":                   {"group=g%2Cteam%3Dx"},
		"a group without a name":                   {"group=shop/"},
		"a group of a bad namespace":               {"group=../g"},
		"a group of no namespace":                  {"group=/g"},
		"a query with a bad escape":                {"group=%zz"},
		"a query with semicolons":                  {"group=a;names=b"},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		row := requests[name]
		t.Run(name, func(t *testing.T) {
			query, err := (&Gateway{options: bounds}).parseQuery(httptest.NewRequest("GET", "/?"+row.query, nil))
			got := query.String() + " session " + query.Session.String() + " timeout " + query.Timeout.String() + " refresh " +
				query.Refresh.String() + " " + query.Title
			got += map[bool]string{true: " details true", false: " details false"}[query.Details]
			if err != nil {
				got = err.Error()
				if problemOf(err).Status != 400 {
					t.Errorf("%v is answered with %d", err, problemOf(err).Status)
				}
			}
			file.Entry(t, name, got)
		})
	}
}

func TestLongTitleIsClipped(t *testing.T) {
	query, err := ParseQuery(map[string][]string{"group": {"g"}, "display_name": {strings.Repeat("ß", 5000)}}, bounds)
	if err != nil || len(query.Title) > maxTitle || !strings.HasSuffix(query.Title, "ß...") {
		t.Errorf("%q, %v", query.Title, err)
	}
}

func TestNamespaceIsRequiredWithoutDefault(t *testing.T) {
	for query, want := range map[string]string{"names": "web", "group": "shop"} {
		_, err := ParseQuery(map[string][]string{query: {want}}, Options{})
		if err == nil || problemOf(err).Status != 400 || !strings.Contains(err.Error(), "no namespace") {
			t.Errorf("%s=%s: %v", query, want, err)
		}
	}
}
