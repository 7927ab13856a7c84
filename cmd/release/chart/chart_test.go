package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/test/golden"
)

const (
	digest          = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	image           = "registry.example.com/drydock" + digest
	standaloneImage = "registry.example.com/drydock-standalone" + digest
)

var options = Options{Version: "v1.2.3", Image: image, StandaloneImage: standaloneImage}

func load(t *testing.T) *helm.Chart {
	t.Helper()
	files, err := Files(options)
	if err != nil {
		t.Fatal(err)
	}
	var buffered []*loader.BufferedFile
	for _, file := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: strings.TrimPrefix(file.Name, Name+"/"), Data: file.Content})
	}
	loaded, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// helmRenders returns the documents of the chart by file, as Helm renders them.
func helmRenders(chart *helm.Chart, values map[string]any, namespace string) (map[string]string, error) {
	release := chartutil.ReleaseOptions{Name: "drydock", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// objectsOf returns the objects of the documents by kind and name.
func objectsOf(t *testing.T, files map[string]string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range releaseutil.SplitManifests(text) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if len(object.Object) > 0 {
				objects[keyOf(object)] = object.Object
			}
		}
	}
	return objects
}

func keyOf(object *unstructured.Unstructured) string {
	return fmt.Sprint(object.GetAPIVersion(), " ", object.GetKind(), " ", object.GetNamespace(), "/", object.GetName())
}

// TestChartInstallsWhatTheCommandInstalls compares each object with that of kubectl drydock install.
func TestChartInstallsWhatTheCommandInstalls(t *testing.T) {
	chart := load(t)
	for _, mode := range []install.Mode{install.Standalone, install.Knative} {
		for _, edited := range []string{"off", "v1", "v1beta1"} {
			for _, tags := range []bool{false, true} {
				t.Run(fmt.Sprint(mode, " ", edited, " ", tags), func(t *testing.T) {
					o := install.Options{Mode: mode, Image: image, StandaloneImage: standaloneImage, AllowTags: tags,
						Templates: strings.TrimPrefix(edited, "off")}
					if tags {
						o.Image, o.StandaloneImage = "registry.example.com:5000/drydock:dev", "registry.example.com:5000/drydock-standalone:dev"
					}
					files, err := helmRenders(chart, map[string]any{"mode": string(mode), "image": o.Image, "standaloneImage": o.StandaloneImage,
						"editedManifests": edited, "settings": map[string]any{"DRYDOCK_ALLOW_TAGS": fmt.Sprint(tags)}}, "default")
					if err != nil {
						t.Fatal(err)
					}
					compare(t, o, objectsOf(t, files))
				})
			}
		}
	}
}

// compare compares the objects of the chart with those of the command. Only the annotation that keeps the kind Scaler may be different.
func compare(t *testing.T, o install.Options, got map[string]map[string]any) {
	t.Helper()
	rendered, err := install.Render(o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{}
	for _, object := range rendered {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if object.Object = nil; yaml.Unmarshal(text, &object.Object) != nil { // the same types of numbers
			t.Fatal(object.GetName())
		}
		want[keyOf(object)] = object.Object
	}
	for _, object := range got {
		unstructured.RemoveNestedField(object, "metadata", "annotations", "helm.sh/resource-policy")
		if annotations, found, _ := unstructured.NestedMap(object, "metadata", "annotations"); found && len(annotations) == 0 {
			unstructured.RemoveNestedField(object, "metadata", "annotations")
		}
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("- is the command, + is the chart\n%s", difference)
	}
}

func TestValuesChangeOnlyTheirObjects(t *testing.T) {
	chart := load(t)
	objects := func(values map[string]any) map[string]map[string]any {
		files, err := helmRenders(chart, values, "default")
		if err != nil {
			t.Fatal(err)
		}
		return objectsOf(t, files)
	}
	before := objects(nil)
	for name, row := range map[string]struct {
		values map[string]any
		change string // the keys of changed objects
	}{
		"replicas":        {map[string]any{"replicas": 0}, "apps/v1 Deployment drydock/drydock-standalone"},
		"settings":        {map[string]any{"settings": map[string]any{"DRYDOCK_TICK": "30s"}}, "v1 ConfigMap drydock/drydock-settings"},
		"no namespace":    {map[string]any{"createNamespace": false}, "v1 Namespace /drydock"},
		"edited is false": {map[string]any{"editedManifests": false}, ""},
	} {
		var changed []string
		after := objects(row.values)
		for key, object := range before {
			if cmp.Diff(object, after[key]) != "" {
				changed = append(changed, key)
			}
		}
		if got := strings.Join(changed, ", "); got != row.change {
			t.Errorf("%s changes %s, want %s", name, got, row.change)
		}
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	chart := load(t)
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		values    map[string]any
		namespace string
	}{
		{"a tag", map[string]any{"image": "example.com/drydock:dev"}, "default"},
		{"a tag of the standalone image", map[string]any{"standaloneImage": "example.com/drydock-standalone:dev"}, "default"},
		{"an unknown mode", map[string]any{"mode": "both"}, "default"},
		{"an unknown value", map[string]any{"replica": 1}, "default"},
		{"a setting that is no text", map[string]any{"settings": map[string]any{"DRYDOCK_ALLOW_TAGS": true}}, "default"},
		{"the image as a setting", map[string]any{"settings": map[string]any{"DRYDOCK_IMAGE": image}}, "default"},
		{"a setting with a typing error", map[string]any{"settings": map[string]any{"DRYDOCK_RETENTOIN": "48h"}}, "default"},
		{"a setting in lower case", map[string]any{"settings": map[string]any{"drydock_retention": "48h"}}, "default"},
		{"the release is in the chart's namespace", nil, "drydock"},
	} {
		_, err := helmRenders(chart, row.values, row.namespace)
		if err == nil {
			t.Errorf("%s is accepted", row.situation)
			continue
		}
		file.Entry(t, row.situation, err.Error())
	}
}

// TestChartKnowsEverySetting: files/settings.txt has the names of docs/reference/settings.md, which is generated from the code.
func TestChartKnowsEverySetting(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^- `(DRYDOCK_\\w+)`").FindAllStringSubmatch(string(page), -1) {
		names[match[1]] = true
	}
	delete(names, "DRYDOCK_IMAGE") // a value of its own
	known, err := written.ReadFile("files/settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(slices.Sorted(maps.Keys(names)), strings.Fields(string(known))); difference != "" {
		t.Errorf("correct files/settings.txt: - is in docs/reference/settings.md, + is in the file\n%s", difference)
	}
}

// TestOtherVariablesHaveAnyName: the settings may contain variables of OpenTelemetry and Go.
func TestOtherVariablesHaveAnyName(t *testing.T) {
	settings := map[string]any{"OTEL_TRACES_EXPORTER": "otlp", "GOGC": "200", "LOG_LEVEL": "debug"}
	if _, err := helmRenders(load(t), map[string]any{"settings": settings}, "default"); err != nil {
		t.Error(err)
	}
}

func TestHelmFindsNoFault(t *testing.T) {
	files, err := Files(options)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, file := range files {
		path := filepath.Join(folder, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, message := range lint.All(filepath.Join(folder, Name), nil, "default", true).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

// TestTemplatesDependOnNothingElse: two charts of the same options are equal.
func TestTemplatesDependOnNothingElse(t *testing.T) {
	first, second := load(t), load(t)
	for n, file := range first.Templates {
		if other := second.Templates[n]; file.Name != other.Name || !bytes.Equal(file.Data, other.Data) {
			t.Errorf("%s differs from %s", file.Name, other.Name)
		}
	}
}
