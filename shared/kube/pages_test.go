package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
)

// deepScaler returns a Scaler of that many levels in JSON.
func deepScaler(levels int) string {
	const around = 6 // the Scaler, its spec, hooks, pre hook, Job and template
	return `{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","metadata":{"name":"deep","namespace":"evil"},` +
		`"spec":{"target":"web","hooks":{"pre":{"job":{"template":{"a":` + strings.Repeat(`[`, levels-around) +
		strings.Repeat("]", levels-around) + `}}}}}}`
}

// TestDeepObjectHidesNoOther: a list has two levels more than its items, and Go's decoder accepts 10,000. The API server lists custom
// resources with sorted keys, so the items come before the metadata of the list.
func TestDeepObjectHidesNoOther(t *testing.T) {
	scaler := func(name string) string {
		return `{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","metadata":{"annotations":{"a":"\\\"]}"},"name":"` + name +
			`"},"spec":{"target":"web"}}`
	}
	for name, row := range map[string]struct {
		deep string
		want []string
	}{
		"the deepest that is stored":    {deepScaler(10000), []string{"first", "deep", "last", "next"}},
		"one that no decoder can read":  {deepScaler(10001), nil},
		"one that ends in the middle":   {deepScaler(10000)[:9000], nil},
		"one with a wrong kind of name": {strings.Replace(deepScaler(10), `"deep"`, "7", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				items, next := scaler("first")+","+row.deep+","+scaler("last"), "more"
				if r.URL.Query().Get("continue") == next {
					items, next = scaler("next"), ""
				}
				_, _ = io.WriteString(w, `{"apiVersion":"drydock.dev/v1alpha1","items":[`+items+`],"kind":"ScalerList","metadata":{"continue":"`+
					next+`","resourceVersion":"7"}}`)
			}))
			t.Cleanup(server.Close)
			var names []string
			err := Pages(t.Context(), NewClient(&rest.Config{Host: server.URL}), plan.Scalers, "", "", &v1alpha1.ScalerList{},
				func(l *v1alpha1.ScalerList) {
					for i := range l.Items {
						names = append(names, l.Items[i].Name)
					}
				})
			if (err == nil) != (row.want != nil) || !slices.Equal(names, row.want) {
				t.Errorf("Scalers %q, want %q, error %v", names, row.want, err)
			}
		})
	}
}

// TestAnswerWithoutListIsNoEmptyList: a proxy before the API server may end an answer early. Without its journals or pods, a set would be
// judged wrongly.
func TestAnswerWithoutListIsNoEmptyList(t *testing.T) {
	for _, row := range []struct {
		body string
		ok   bool
	}{
		{"", false},
		{"\n", false},
		{" v1", false},
		{"<html></html>", false},
		{`{"kind":"Status","apiVersion":"v1"}`, false},
		{`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, row.body) }))
		t.Cleanup(server.Close)
		err := Pages(t.Context(), NewClient(&rest.Config{Host: server.URL}), plan.Pods, "", "", &corev1.PodList{}, func(*corev1.PodList) {})
		if (err == nil) != row.ok {
			t.Errorf("%q: error %v, want one: %t", row.body, err, !row.ok)
		}
	}
}

func TestListIsSplitIntoItsItems(t *testing.T) {
	for list, want := range map[string]string{
		`{"items":[{"a":[{}]},{"b":"]}"}],"metadata":{}}`: `{"items":[],"metadata":{}} {"a":[{}]} {"b":"]}"}`,
		`{"items":[{"a":"\\\""}]}`:                        `{"items":[]} {"a":"\\\""}`,
		`{"metadata":{"a":{}},"items":[ {} , {} ]}`:       `{"metadata":{"a":{}},"items":[  ]} {} {}`,
		`{"items":[]}`:   `{"items":[]}`,
		`{"items":null}`: `{"items":null}`,
		`{"items":[{}`:   `{"items":[ {}`,
		`]`:              `]`,
		`"`:              `"`,
		``:               ``,
	} {
		rest, items := splitList([]byte(list))
		got := string(rest)
		for _, item := range items {
			got += " " + string(item)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
}
