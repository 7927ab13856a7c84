package engine

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/eventing/pkg/adapter/apiserver"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/pkg/apis"
	"sigs.k8s.io/yaml"
)

// TestKnativeAcceptsConfig validates config/ with the code of Knative's webhook.
func TestKnativeAcceptsConfig(t *testing.T) {
	flags, err := feature.NewFlagsConfigFromMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := apis.WithinCreate(feature.ToContext(context.Background(), flags))
	for name, into := range map[string]interface {
		apis.Validatable
		apis.Defaultable
	}{
		"base/broker.yaml": &eventingv1.Broker{},
		"base/source.yaml": &sourcesv1.ApiServerSource{},
		"base/tick.yaml":   &sourcesv1.PingSource{},
	} {
		t.Run(name, func(t *testing.T) {
			first, _, _ := strings.Cut(readConfig(t, name), "\n---\n")
			if err := yaml.UnmarshalStrict([]byte(first), into); err != nil {
				t.Fatal(err)
			}
			into.SetDefaults(ctx)
			if problems := into.Validate(ctx); problems != nil {
				t.Error(problems)
			}
		})
	}
}

func readConfig(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../config/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStandaloneSourceWatchesSameObjectsAsKnativeSource: the standalone source watches the objects of config/base/source.yaml. By default
// it watches all namespaces, because nothing restarts it when a namespace is created or deleted.
func TestStandaloneSourceWatchesSameObjectsAsKnativeSource(t *testing.T) {
	first, _, _ := strings.Cut(readConfig(t, "base/source.yaml"), "\n---\n")
	source := &sourcesv1.ApiServerSource{}
	if err := yaml.UnmarshalStrict([]byte(first), source); err != nil {
		t.Fatal(err)
	}
	plurals := map[string]string{"StatefulSet": "statefulsets", "PersistentVolumeClaim": "persistentvolumeclaims", "Job": "jobs",
		"Pod": "pods", "Scaler": "scalers"}
	want := apiserver.Config{Namespaces: []string{""}, AllNamespaces: true, EventMode: source.Spec.EventMode}
	for _, r := range source.Spec.Resources {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		if err != nil {
			t.Fatal(err)
		}
		watch := apiserver.ResourceWatch{GVR: gv.WithResource(plurals[r.Kind])}
		if r.LabelSelector != nil {
			watch.LabelSelector = metav1.FormatLabelSelector(r.LabelSelector)
		}
		want.Resources = append(want.Resources, watch)
	}
	if diff := cmp.Diff(want, (&Source{}).adapterConfig()); diff != "" {
		t.Errorf("(-config/base/source.yaml +standalone)\n%s", diff)
	}
	some := (&Source{Namespaces: []string{"a", "b"}}).adapterConfig()
	if some.AllNamespaces || !cmp.Equal(some.Namespaces, []string{"a", "b"}) {
		t.Errorf("with namespaces: %+v", some)
	}
}
