package manifests

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	eventingv1alpha1 "knative.dev/eventing/pkg/apis/eventing/v1alpha1"
	"knative.dev/eventing/pkg/apis/feature"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// functions are the folders of functions in deploy/.
var functions = []string{"backup", "cleanup-pod", "dead-letter", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner",
	"restore", "scale", "sift", "status-page", "wake-gateway"}

// overlays are the overlays of a whole installation.
var overlays = []string{"cluster", "namespace", "kafka", "oidc"}

// render returns the objects that kubectl kustomize prints for the folder.
func render(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	if err != nil {
		t.Fatalf("rendering %s: %v", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Fatalf("%s has no objects", folder)
	}
	return objects
}

// decoder decodes Kubernetes' kinds and the Knative kinds that Drydock uses. It refuses unknown fields.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kubescheme.AddToScheme, apiextensionsv1.AddToScheme, eventingv1.AddToScheme, eventingv1alpha1.AddToScheme, sourcesv1.AddToScheme,
		servingv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// accept treats a new object as the API server and Knative's webhook do: it checks the fields, sets defaults and validates.
func accept(ctx context.Context, object *unstructured.Unstructured) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	typed, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	resource, ok := typed.(interface {
		apis.Validatable
		apis.Defaultable
	})
	if !ok {
		if strings.Contains(object.GetAPIVersion(), "knative.dev") {
			return fmt.Errorf("%s has no validation", object.GetKind())
		}
		return nil // a kind of Kubernetes, whose fields were checked
	}
	ctx = apis.WithinCreate(ctx)
	resource.SetDefaults(ctx)
	if problems := resource.Validate(ctx); problems != nil {
		return problems
	}
	return nil
}

// knative returns the context of the webhooks, with or without authentication.
func knative(t *testing.T, oidc feature.Flag) context.Context {
	flags, err := feature.NewFlagsConfigFromMap(map[string]string{feature.OIDCAuthentication: string(oidc)})
	if err != nil {
		t.Fatal(err)
	}
	return feature.ToContext(t.Context(), flags)
}

func TestKnativeAcceptsTheManifests(t *testing.T) {
	for _, overlay := range overlays {
		oidc := feature.Disabled
		if overlay == "oidc" {
			oidc = feature.Enabled
		}
		expectAccepted(t, knative(t, oidc), "config/overlays/"+overlay)
	}
	for _, function := range functions {
		expectAccepted(t, knative(t, feature.Disabled), "deploy/"+function)
	}
}

func expectAccepted(t *testing.T, ctx context.Context, folder string) {
	t.Helper()
	for _, object := range render(t, folder) {
		if err := accept(ctx, object); err != nil {
			t.Errorf("%s: %s %s: %v", folder, object.GetKind(), object.GetName(), err)
		}
	}
}

// TestKnativeRefusesMistakes shows that the test above can fail. A real webhook would refuse each of these too.
func TestKnativeRefusesMistakes(t *testing.T) {
	change := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, row := range map[string]struct {
		folder, kind string
		change       func(*unstructured.Unstructured)
	}{
		"an unknown field": {"deploy/backup", "Service", change("x", "spec", "template", "spec", "nodePool")},
		"a scale below zero": {"deploy/backup", "Service", change("-1", "spec", "template", "metadata", "annotations",
			"autoscaling.knative.dev/min-scale")},
		"a timeout beyond Serving's": {"deploy/backup", "Service", change(int64(100000), "spec", "template", "spec",
			"timeoutSeconds")},
		"an invalid duration":                   {"deploy/backup", "Trigger", change("soon", "spec", "delivery", "backoffDelay")},
		"an empty subscriber":                   {"deploy/backup", "Trigger", change(map[string]any{}, "spec", "subscriber")},
		"a source without resources":            {"config", "ApiServerSource", change([]any{}, "spec", "resources")},
		"an invalid schedule":                   {"config", "PingSource", change("sometimes", "spec", "schedule")},
		"an EventPolicy without authentication": {"config/overlays/oidc", "EventPolicy", func(*unstructured.Unstructured) {}},
		"a NetworkPolicy with a typo":           {"config", "NetworkPolicy", change("x", "spec", "podselector")},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, row.folder)
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == row.kind })
			if i < 0 {
				t.Fatalf("%s has no %s", row.folder, row.kind)
			}
			row.change(objects[i])
			if err := accept(knative(t, feature.Disabled), objects[i]); err == nil {
				t.Error("the mistake is accepted")
			}
		})
	}
}

// TestEveryFunctionHasTheCommonSettings checks the final objects of each function in deploy/.
func TestEveryFunctionHasTheCommonSettings(t *testing.T) {
	accounts := map[string]bool{}
	for _, object := range render(t, "config") {
		if object.GetKind() == "ServiceAccount" {
			accounts[object.GetNamespace()+"/"+object.GetName()] = true
		}
	}
	for _, function := range functions {
		t.Run(function, func(t *testing.T) {
			service := &servingv1.Service{}
			for _, object := range render(t, "deploy/"+function) {
				switch object.GetKind() {
				case "Service":
					convert(t, object, service)
				case "Trigger":
					trigger := &eventingv1.Trigger{}
					convert(t, object, trigger)
					expectDelivery(t, trigger, function)
				default:
					t.Errorf("%s %s does not belong into deploy/", object.GetKind(), object.GetName())
				}
			}
			expectCommonSettings(t, service)
			if pod := service.Spec.Template.Spec; !accounts["drydock/"+pod.ServiceAccountName] || pod.ServiceAccountName != function {
				t.Errorf("account %q is not that of the function, or config/ does not create it", pod.ServiceAccountName)
			}
		})
	}
}

func convert(t *testing.T, from *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		t.Fatal(err)
	}
}

// expectDelivery checks that the Trigger's delivery is complete, because it replaces the Broker's entirely.
func expectDelivery(t *testing.T, trigger *eventingv1.Trigger, function string) {
	t.Helper()
	d := trigger.Spec.Delivery
	if d == nil || d.Retry == nil || d.BackoffPolicy == nil || d.BackoffDelay == nil || d.Timeout == nil || d.DeadLetterSink == nil {
		t.Errorf("the delivery of Trigger %s is incomplete: %+v", trigger.Name, d)
	}
	if ref := trigger.Spec.Subscriber.Ref; ref == nil || ref.Name != function {
		t.Errorf("Trigger %s is for %+v", trigger.Name, ref)
	}
}

// expectCommonSettings checks the visibility, scaling, timeout, resources and security context of a function's Service.
func expectCommonSettings(t *testing.T, service *servingv1.Service) {
	t.Helper()
	if service.Labels["networking.knative.dev/visibility"] != "cluster-local" {
		t.Error("the Service can be called from outside the cluster")
	}
	template := service.Spec.Template
	if template.Annotations["autoscaling.knative.dev/min-scale"] != "0" {
		t.Error("the Service does not scale to zero")
	}
	// The timeout is between that of a function, 25 s, and that of the Broker, 60 s. A request to the gateway or the status page may
	// take 300 s.
	least, most := int64(25), int64(60)
	if service.Name == "wake-gateway" || service.Name == "status-page" {
		least, most = 300, 600
	}
	if seconds := template.Spec.TimeoutSeconds; seconds == nil || *seconds >= most || *seconds <= least {
		t.Errorf("timeout %v s, want one between %d and %d", seconds, least, most)
	}
	container := template.Spec.Containers[0]
	if len(container.Resources.Requests) != 2 || container.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources %v", container.Resources)
	}
	yes, no := true, false
	c := container.SecurityContext
	if c == nil || c.Capabilities == nil || c.SeccompProfile == nil {
		t.Fatalf("security context %+v is not restricted", c)
	}
	got := []any{c.AllowPrivilegeEscalation, c.ReadOnlyRootFilesystem, c.RunAsNonRoot, c.Capabilities.Drop, string(c.SeccompProfile.Type)}
	want := []any{&no, &yes, &yes, append(c.Capabilities.Drop[:0:0], "ALL"), "RuntimeDefault"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("security context (-want +got)\n%s", diff)
	}
}

// TestKafkaOverlayDiffersOnlyInTheBroker: all Triggers but that of sift request ordered delivery. sift judges each event separately, so it
// does not need the order.
func TestKafkaOverlayDiffersOnlyInTheBroker(t *testing.T) {
	cluster := map[string][]byte{}
	for _, object := range render(t, "config/overlays/cluster") {
		text, _ := object.MarshalJSON()
		cluster[object.GetKind()+" "+object.GetName()] = text
	}
	var different []string
	for _, object := range render(t, "config/overlays/kafka") {
		name := object.GetKind() + " " + object.GetName()
		if text, _ := object.MarshalJSON(); !bytes.Equal(text, cluster[name]) {
			different = append(different, name)
		}
	}
	slices.Sort(different)
	if diff := cmp.Diff([]string{"Broker default", "ConfigMap drydock-kafka", "ConfigMap drydock-settings"}, different); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, function := range functions {
		for _, object := range render(t, "deploy/"+function) {
			if object.GetKind() == "Trigger" && function != "sift" &&
				object.GetAnnotations()["kafka.eventing.knative.dev/delivery.order"] != "ordered" {
				t.Errorf("Trigger %s does not request ordered delivery", object.GetName())
			}
		}
	}
}

// TestRoleBindingsAreBesideTheirRoles: a RoleBinding in another namespace than its Role gives no rights, and the owner of that namespace
// could create a Role with the name.
func TestRoleBindingsAreBesideTheirRoles(t *testing.T) {
	for _, overlay := range overlays {
		roles := map[string]string{"drydock-mover-image": "drydock"} // kubectl drydock install creates it
		var bindings []*unstructured.Unstructured
		for _, object := range render(t, "config/overlays/"+overlay) {
			switch object.GetKind() {
			case "Role":
				roles[object.GetName()] = object.GetNamespace()
			case "RoleBinding":
				bindings = append(bindings, object)
			}
		}
		for _, binding := range bindings {
			kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
			role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
			if kind == "Role" && binding.GetNamespace() != roles[role] {
				t.Errorf("overlay %s: RoleBinding %s is in namespace %s, its Role in %q", overlay, binding.GetName(), binding.GetNamespace(),
					roles[role])
			}
			if kind == "ClusterRole" && overlay == "namespace" && binding.GetNamespace() != "default" {
				t.Errorf("RoleBinding %s is in namespace %s", binding.GetName(), binding.GetNamespace())
			}
		}
	}
}
