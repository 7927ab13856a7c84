package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

var bounds = Options{LongestSession: time.Hour, DefaultTimeout: time.Minute, Namespace: "dock"}

func TestNames(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"short":                              {"shop/web", "shop/web"},
		"Sablier's":                          {"statefulset_shop_web_3", "shop/web"},
		"Sablier's with another delimiter":   {"statefulset:shop:web:1", "shop/web"},
		"Sablier's with slashes":             {"statefulset/shop/web/0", "shop/web"},
		"Sablier's with a pipe":              {"statefulset|shop|web|1", "shop/web"},
		"Sablier's with two letters between": {"statefulset__shop__web__1", "shop/web"},
		"Sablier's with a word between":      {"statefulset=AND=shop=AND=web=AND=1", "shop/web"},
		"Sablier's with hyphens":             {"statefulset-shop-web-1", "shop/web"},
		"hyphens, and one more in the name":  {"statefulset-shop-my-web-1", "no name of a StatefulSet"},
		"Sablier's with dots":                {"statefulset.shop.web.1", "shop/web"},
		"Sablier's with a letter of no name": {"statefulset§shop§web§1", "shop/web"},
		"a kind alone":                       {"statefulset", "names no namespace"},
		"a namespace of the kind's name":     {"statefulset/web", "statefulset/web"},
		"a name with dots":                   {"shop/web.eu", "shop/web.eu"},
		"without a namespace":                {"web", "names no namespace"},
		"too few parts":                      {"statefulset_shop_web", "no name of a StatefulSet"},
		"too many parts":                     {"statefulset_shop_web_1_2", "no name of a StatefulSet"},
		"a Deployment":                       {"deployment_shop_web_1", `a "deployment". Drydock wakes StatefulSets only`},
		"two delimiters":                     {"statefulset_shop:web_1", "no name of a StatefulSet"},
		"replicas that are no number":        {"statefulset_shop_web_many", "does not end in a number of replicas"},
		"less than no replicas":              {"statefulset_shop_web_-1", "does not end in a number of replicas"},
		"more replicas than there can be":    {"statefulset_shop_web_99999999999", "does not end in a number of replicas"},
		"another path":                       {"shop/..", "no valid namespace and name"},
		"another resource":                   {"shop/web?x=1", "no valid namespace and name"},
		"an empty namespace":                 {"/web", "no valid namespace and name"},
		"an empty name":                      {"statefulset_shop__1", "no valid namespace and name"},
		"a name that is no word at all":      {"\x00/\xff", "no valid namespace and name"},
		"a name of a thousand letters":       {"shop/" + strings.Repeat("a", 1000), "no valid namespace and name"},
		"a namespace with a dot":             {"sh.op/web", "no valid namespace and name"},
		"a capital letter, so not of a set ": {"shop/Web", "no valid namespace and name"},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := ParseName(row.text, "")
			got := ref.Ref.String()
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, row.want) || err == nil && got != row.want || len(got) > 300 {
				t.Errorf("%.50q is %s, want %s", row.text, got, row.want)
			}
		})
	}
}

// FuzzNames: whatever passes is a name of Kubernetes, and reads the same again.
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
	for name, row := range map[string]struct{ query, want string }{
		"as the Traefik plugin sends it": {"display_name=shop%40file&names=statefulset_shop_web_1&names=shop%2Fdb&refresh_frequency=3s&session_duration=10m&show_details=true&theme=ghost",
			"shop/db,shop/web session 10m0s timeout 1m0s refresh 3s shop@file details true"},
		"as the Caddy plugin sends it": {"group=shop%2Fshop&session_duration=30m0s&timeout=1m30s",
			"group shop/shop session 30m0s timeout 1m30s refresh 5s This service details false"},
		"as the nginx script sends it": {"session_duration=&display_name=&theme=&refresh_frequency=&show_details=&names=shop%2Fweb",
			"shop/web session 0s timeout 1m0s refresh 5s This service details false"},
		"with commas":                      {"names=shop/web,+shop/db,,", "shop/db,shop/web session 0s timeout 1m0s refresh 5s This service details false"},
		"the same name often":              {"names=" + many, "shop/web session 0s timeout 1m0s refresh 5s This service details false"},
		"a group of the default namespace": {"group=shop", "group dock/shop session 0s timeout 1m0s refresh 5s This service details false"},
		"too long, so as long as may be":   {"group=g&session_duration=9000h&timeout=1h&refresh_frequency=1h", "group dock/g session 1h0m0s timeout 5m0s refresh 1m0s This service details false"},
		"too short a refresh":              {"group=g&refresh_frequency=1ms", "group dock/g session 0s timeout 1m0s refresh 1s This service details false"},
		"a title with what is no letter":   {"group=g&display_name=%20a%0A%00b%E2%80%AEc%FF%20", "group dock/g session 0s timeout 1m0s refresh 5s a bc details false"},
		"what nobody knows":                {"group=g&desiredReplicas=9&x=y", "group dock/g session 0s timeout 1m0s refresh 5s This service details false"},

		"nothing":                                 {"", "neither names nor group"},
		"nothing but empty names":                 {"names=,,&group=", "neither names nor group"},
		"both":                                    {"names=shop/web&group=g", "both names and group"},
		"too many names":                          {"names=" + distinct, "64 names are more than 10"},
		"a bad name":                              {"names=shop/web&names=We_b", `"We_b" names a ""`},
		"a session that is no duration":           {"group=g&session_duration=soon", `session_duration="soon" is no duration`},
		"a session of nothing is the shortest":    {"group=g&session_duration=0s", "group dock/g session 10s timeout 1m0s refresh 5s This service details false"},
		"a session too short for the API server":  {"group=g&session_duration=1ms", "group dock/g session 10s timeout 1m0s refresh 5s This service details false"},
		"a set of the default namespace":          {"names=web", "dock/web session 0s timeout 1m0s refresh 5s This service details false"},
		"an optional set":                         {"names=shop/web&names=optional:shop/db", "optional:shop/db,shop/web session 0s timeout 1m0s refresh 5s This service details false"},
		"optional once and required once":         {"names=shop/web,optional:statefulset_shop_web_1", "shop/web session 0s timeout 1m0s refresh 5s This service details false"},
		"optional, with a delimiter that is none": {"names=optional:statefulset:shop:db:1", "optional:shop/db session 0s timeout 1m0s refresh 5s This service details false"},
		"a session that was":                      {"group=g&session_duration=-5m", "is no duration"},
		"a bad timeout":                           {"group=g&timeout=5", "is no duration"},
		"a bad refresh":                           {"group=g&refresh_frequency=%3Cscript%3E", "is no duration"},
		"details that are neither":                {"group=g&show_details=maybe", "neither true nor false"},
		"a selector for a group":                  {"group=g%2Cteam%3Dx", "no value of a label"},
		"a group without a name":                  {"group=shop/", "no value of a label"},
		"a group of a bad namespace":              {"group=../g", "no namespace before the slash"},
		"a group of no namespace":                 {"group=/g", "no namespace before the slash"},
		"a query that is none":                    {"group=%zz", "cannot be read"},
		"a query with semicolons":                 {"group=a;names=b", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			ask, err := (&Gateway{options: bounds}).asking(httptest.NewRequest("GET", "/?"+row.query, nil))
			got := ask.String() + " session " + ask.Session.String() + " timeout " + ask.Timeout.String() + " refresh " + ask.Refresh.String() + " " + ask.Title
			got += map[bool]string{true: " details true", false: " details false"}[ask.Details]
			if err != nil {
				got = err.Error()
				if problemOf(err).Status != 400 {
					t.Errorf("%v is answered with %d", err, problemOf(err).Status)
				}
			}
			if err == nil && got != row.want || !strings.Contains(got, row.want) {
				t.Errorf("is  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestALongTitleIsCut(t *testing.T) {
	ask, err := ParseAsk(map[string][]string{"group": {"g"}, "display_name": {strings.Repeat("ß", 5000)}}, bounds)
	if err != nil || len([]rune(ask.Title)) != longestTitle {
		t.Errorf("%d runes, %v", len([]rune(ask.Title)), err)
	}
}

func TestWithoutADefaultNamespaceNamesAndGroupsNeedOne(t *testing.T) {
	for query, want := range map[string]string{"names": "web", "group": "shop"} {
		_, err := ParseAsk(map[string][]string{query: {want}}, Options{})
		if err == nil || problemOf(err).Status != 400 || !strings.Contains(err.Error(), "names no namespace") {
			t.Errorf("%s=%s: %v", query, want, err)
		}
	}
}
