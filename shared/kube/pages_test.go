package kube

import (
	"strings"
	"testing"
)

// TestOutlineOfDeepList: the API server lists custom resources with sorted keys, so the object comes before the metadata of the list.
func TestOutlineOfDeepList(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 6000) + "1" + strings.Repeat("]}", 6000)
	list := `{"apiVersion":"drydock.dev/v1alpha1","items":[{"metadata":{"labels":{"name":"no"},"name":"deep","namespace":"evil"},` +
		`"spec":[1e999,` + deep + `]` + `}],"kind":"ScalerList","metadata":{"continue":"next","resourceVersion":"7"}}`
	if next, object := outline([]byte(list)); next != "next" || object != "evil/deep" {
		t.Errorf("next page %q, object %q", next, object)
	}
	for _, broken := range []string{"", "{", `{"metadata":`, `{"items":[}`, "]", `{"metadata":{"continue":7}}`} {
		if next, object := outline([]byte(broken)); next != "" || object != "/" {
			t.Errorf("%s: next page %q, object %q", broken, next, object)
		}
	}
}
