package brokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/pkg/apis"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// object is one rendered manifest.
type object = unstructured.Unstructured

// installation is an overlay, and the Triggers that the deployer adds to it.
type installation struct {
	objects []*object
}

// install renders the overlay and all Triggers.
func install(t *testing.T, overlay string) *installation {
	t.Helper()
	i := &installation{objects: render(t, "config/overlays/"+overlay)}
	folders, err := filepath.Glob(filepath.Join(root, "deploy", "*", "triggers.yaml"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("looking for Triggers: %v", err)
	}
	for _, file := range folders {
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range render(t, folder) {
			if o.GetKind() == "Trigger" {
				i.objects = append(i.objects, o)
			}
		}
	}
	return i
}

// render returns the objects that kubectl kustomize prints for the folder.
func render(t *testing.T, folder string) []*object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	if err != nil {
		t.Fatalf("rendering %s: %v", folder, err)
	}
	var objects []*object
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := &object{}
		if err := yaml.Unmarshal(text, o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// find returns the objects of the kind.
func (i *installation) find(kind string) []*object {
	return slices.DeleteFunc(slices.Clone(i.objects), func(o *object) bool { return o.GetKind() != kind })
}

// one returns the object of the kind with the name, or an error.
func (i *installation) one(kind, namespace, name string) (*object, error) {
	for _, o := range i.find(kind) {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("there is no %s %s/%s", kind, namespace, name)
}

// decode decodes the object into a type, as the API server does. It refuses unknown fields, and fields with letters in another case.
func decode(o *object, into any) error {
	text, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	unknown, err := kubejson.UnmarshalStrict(text, into)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("decoding %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// resource is a kind with defaults and validation.
type resource interface {
	apis.Defaultable
	apis.Validatable
}

// admit decodes the object, sets defaults and validates it, as a webhook does with a new object.
func admit(ctx context.Context, o *object, into resource) error {
	if err := decode(o, into); err != nil {
		return err
	}
	ctx = apis.WithinCreate(apis.AllowDifferentNamespace(ctx))
	into.SetDefaults(ctx)
	if problems := into.Validate(ctx); problems != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), problems)
	}
	return nil
}

// webhook returns the context of a webhook, with the default features.
func webhook(t *testing.T) context.Context {
	t.Helper()
	flags, err := feature.NewFlagsConfigFromMap(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	return feature.ToContext(t.Context(), flags)
}

// checkEventing applies the webhook of Eventing to its objects, and returns the Broker and the Triggers.
func (i *installation) checkEventing(ctx context.Context) (*eventingv1.Broker, []*eventingv1.Trigger, error) {
	o, err := i.one("Broker", "drydock", "default")
	if err != nil {
		return nil, nil, err
	}
	broker := &eventingv1.Broker{}
	if err := admit(ctx, o, broker); err != nil {
		return nil, nil, err
	}
	broker.UID = "broker"
	for _, o := range i.find("ApiServerSource") {
		if err := admit(ctx, o, &sourcesv1.ApiServerSource{}); err != nil {
			return nil, nil, err
		}
	}
	for _, o := range i.find("PingSource") {
		if err := admit(ctx, o, &sourcesv1.PingSource{}); err != nil {
			return nil, nil, err
		}
	}
	var triggers []*eventingv1.Trigger
	for _, o := range i.find("Trigger") {
		trigger := &eventingv1.Trigger{}
		if err := admit(ctx, o, trigger); err != nil {
			return nil, nil, err
		}
		if trigger.Spec.Broker != broker.Name || trigger.Namespace != broker.Namespace {
			return nil, nil, fmt.Errorf("Trigger %s is not for the Broker", trigger.Name)
		}
		trigger.UID = types.UID(trigger.Name)
		triggers = append(triggers, trigger)
	}
	return broker, triggers, nil
}

// checkSink returns an error if sift's sweep sends its events to another address.
func (i *installation) checkSink(want string) error {
	settings, err := i.one("ConfigMap", "drydock", "drydock-settings")
	if err != nil {
		return err
	}
	if got, _, _ := unstructured.NestedString(settings.Object, "data", "K_SINK"); got != want {
		return fmt.Errorf("K_SINK is %q, and the Broker is at %q", got, want)
	}
	return nil
}

// modules are the folders of the modules' sources, by path.
var modules = sync.OnceValues(func() (map[string]string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}", kafkaModule, rabbitModule).Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the modules: %w", err)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(output)) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		folders[path] = folder
	}
	return folders, nil
})

// module returns the folder of a module's source.
func module(t *testing.T, path string) string {
	t.Helper()
	folders, err := modules()
	if err != nil || folders[path] == "" {
		t.Fatalf("module %s is not in %v: %v", path, folders, err)
	}
	return folders[path]
}

// readAll returns the objects of a file, as far as they have a kind.
func readAll(t *testing.T, file string) []*object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*object
	for _, part := range strings.Split(string(text), "\n---") {
		o := &object{}
		if err := yaml.Unmarshal([]byte(part), o); err == nil && o.GetKind() != "" {
			objects = append(objects, o)
		}
	}
	return objects
}

// shipped returns the object of the kind with the name in a manifest of a module.
func shipped(t *testing.T, file, kind, name string) *object {
	t.Helper()
	for _, o := range readAll(t, file) {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("%s has no %s %s", file, kind, name)
	return nil
}

// mistake is a change of an installation that a check must find.
type mistake struct {
	kind, name string // the object to change
	path       []string
	value      any // nil removes the field
}

// apply changes the first object of the kind, or the one with the name.
func (m mistake) apply(t *testing.T, i *installation) {
	t.Helper()
	for _, o := range i.find(m.kind) {
		if m.name != "" && o.GetName() != m.name {
			continue
		}
		if m.value == nil {
			unstructured.RemoveNestedField(o.Object, m.path...)
			return
		}
		if err := unstructured.SetNestedField(o.Object, m.value, m.path...); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("there is no %s %s", m.kind, m.name)
}

// expectFound checks that the installation is correct, and that the check finds each mistake.
func expectFound(t *testing.T, overlay string, check func(*testing.T, *installation) error, mistakes map[string]mistake) {
	t.Helper()
	correct := install(t, overlay)
	if err := check(t, correct); err != nil {
		t.Fatalf("the overlay is wrong: %v", err)
	}
	for name, m := range mistakes {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			i := &installation{}
			for _, o := range correct.objects {
				i.objects = append(i.objects, o.DeepCopy())
			}
			m.apply(t, i)
			err := check(t, i)
			if err == nil {
				t.Fatal("the mistake is not found")
			}
			t.Log(err)
		})
	}
}
