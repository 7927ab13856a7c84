//go:build cluster

package api

import (
	"fmt"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit"
)

// TestFunctionsHaveTheirOwnPriority: the API server names the FlowSchema of a request in its answer.
func TestFunctionsHaveTheirOwnPriority(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	schema, err := w.Kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), "drydock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the API server uses the FlowSchema", func() string { // it watches FlowSchemas
		for _, function := range []api.Function{api.Backup, api.Restore, api.Sift} {
			if got := flowSchemaOf(t, kube.Impersonate(w.Config, function)); got != string(schema.UID) {
				return string(function) + " has FlowSchema " + got
			}
		}
		return ""
	})
	tenant := rest.CopyConfig(w.Config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":drydock"}
	if got := flowSchemaOf(t, tenant); got == "" || got == string(schema.UID) {
		t.Errorf("a tenant's account has FlowSchema %q, Drydock has %s", got, schema.UID)
	}
	w.Eventually("the priority level exists", func() string { // the API server writes the condition later
		schema, err := w.Kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), "drydock", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, condition := range schema.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling && condition.Status == flowcontrolv1.ConditionFalse {
				return ""
			}
		}
		return fmt.Sprintf("the conditions are %+v", schema.Status.Conditions)
	})
}

// flowSchemaOf returns the UID of the FlowSchema of a request.
func flowSchemaOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	config = rest.CopyConfig(config)
	answers := &flowHeader{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { answers.next = next; return answers })
	_, _ = kubernetes.NewForConfigOrDie(config).AppsV1().StatefulSets("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	return answers.schema
}

// flowHeader is a transport that notes the FlowSchema of the latest request.
type flowHeader struct {
	next   http.RoundTripper
	schema string
}

func (f *flowHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	if err == nil {
		f.schema = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	}
	return response, err
}
