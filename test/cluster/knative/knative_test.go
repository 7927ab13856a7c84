package knative

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// images returns an image for every program, with the tag "1".
func images() map[string]string {
	all := map[string]string{}
	for _, program := range slices.Concat(Eventing, Serving, []string{Ingress}) {
		all[program] = ImageName(program, "1")
	}
	return all
}

func TestModulePinsExactlyThePrograms(t *testing.T) {
	text, err := os.ReadFile("../../knative/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	tools, _, _ := strings.Cut(string(text), "\nrequire")
	pinned := regexp.MustCompile(`knative\.dev/\S+`).FindAllString(tools, -1)
	want := slices.Concat(Eventing, Serving)
	if !slices.Equal(slices.Sorted(slices.Values(pinned)), slices.Sorted(slices.Values(want))) {
		t.Errorf("test/knative/go.mod pins as tools\n%s\nand this package builds\n%s", strings.Join(pinned, "\n"), strings.Join(want, "\n"))
	}
}

func TestReferencesBecomeImages(t *testing.T) {
	tests := map[string]struct{ manifest, want, failure string }{
		"a program": {"image: ko://knative.dev/serving/cmd/queue\n", "image: dev.local/knative.dev/serving/cmd/queue:1\n", ""},
		"a nested program": {"image: ko://knative.dev/eventing/cmd/broker/filter",
			"image: dev.local/knative.dev/eventing/cmd/broker/filter:1", ""},
		"a program that never runs": {`value: "ko://knative.dev/eventing/cmd/auth_proxy"`,
			`value: "dev.local/knative.dev/eventing/cmd/auth_proxy:not-built"`, ""},
		"a program without an image": {"image: ko://knative.dev/eventing/cmd/pong", "", "cmd/pong"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := useImages(test.manifest, images())
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("got error %v, want the name %s in it", err, test.failure)
				}
			} else if err != nil || got != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestFileWithSeveralObjectsIsParsed(t *testing.T) {
	objects, err := Parse("# a comment\n---\nkind: A\nmetadata: {name: a, namespace: ns}\n--- \nkind: B\ndata: {text: \"x\\n---y\"}\n---\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 || objects[0].Kind() != "A" || objects[0].Name() != "a" || objects[0].Namespace() != "ns" ||
		objects[1].Kind() != "B" {
		t.Errorf("got %v", objects)
	}
	if _, err := Parse("kind: [A"); err == nil {
		t.Error("an incomplete object: want an error")
	}
}

func TestKindsAreSortedByDependency(t *testing.T) {
	objects := []Object{{"kind": "ValidatingWebhookConfiguration"}, {"kind": "Deployment"}, {"kind": "ConfigMap"}, {"kind": "Namespace"}}
	if err := Sort(objects); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.Kind())
	}
	if got := strings.Join(kinds, " "); got != "Namespace ConfigMap Deployment ValidatingWebhookConfiguration" {
		t.Errorf("got %s", got)
	}
	err := Sort([]Object{{"kind": "Gadget", "metadata": map[string]any{"name": "g"}}})
	if err == nil || !strings.Contains(err.Error(), "Gadget g") {
		t.Errorf("an unknown kind: got %v", err)
	}
}

func TestAdjustFitsObjectsToOneNode(t *testing.T) {
	objects, err := Parse(`
kind: HorizontalPodAutoscaler
---
kind: PodDisruptionBudget
---
kind: ConfigMap
metadata: {name: config-network}
data: {_example: x}
---
kind: ConfigMap
metadata: {name: config-autoscaler}
---
kind: ConfigMap
metadata: {name: config-other}
---
kind: Deployment
spec:
  template:
    spec:
      affinity: {podAntiAffinity: {}}
      containers:
        - name: a
          resources: {limits: {cpu: 200m}}
          readinessProbe: {httpGet: {port: 1}, initialDelaySeconds: 20, periodSeconds: 10}
        - name: b
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Render(Adjust(objects))
	if err != nil {
		t.Fatal(err)
	}
	want := `---
{"data":{"_example":"x","ingress-class":"traefik.ingress.networking.knative.dev"},"kind":"ConfigMap","metadata":{"name":"config-network"}}
---
{"data":{"scale-to-zero-grace-period":"6s","stable-window":"10s"},"kind":"ConfigMap","metadata":{"name":"config-autoscaler"}}
---
{"kind":"ConfigMap","metadata":{"name":"config-other"}}
---
{"kind":"Deployment","spec":{"template":{"spec":{"containers":[` +
		`{"name":"a","readinessProbe":{"httpGet":{"port":1},"periodSeconds":1},"resources":{"requests":{"cpu":"30m","memory":"50Mi"}}},` +
		`{"name":"b","resources":{"requests":{"cpu":"30m","memory":"50Mi"}}}],"terminationGracePeriodSeconds":10}}}}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// modules creates folders like those of the real modules.
func modules(t *testing.T, files map[string]string) []Module {
	t.Helper()
	root := t.TempDir()
	var all []Module
	for _, path := range Modules {
		all = append(all, Module{Path: path, Version: "v9", Dir: filepath.Join(root, path)})
	}
	for _, s := range sources {
		if err := os.MkdirAll(filepath.Join(root, s.module, s.folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestManifestsAreMadeFromModules(t *testing.T) {
	found := modules(t, map[string]string{
		"knative.dev/eventing/config/core/controller.yaml": "kind: Deployment\nmetadata:\n  name: c\n  namespace: knative-eventing\n" +
			"  labels:\n    app.kubernetes.io/version: devel\n",
		"knative.dev/eventing/config/core/job-sink.yaml": "kind: Deployment\nmetadata: {name: job-sink}\n",
		"knative.dev/eventing/config/core/README.md":     "no manifest",
		"knative.dev/networking/config/ingress.yaml":     "kind: CustomResourceDefinition\nmetadata: {name: ingresses}\n",
		"knative.dev/serving/config/core/hpa.yaml":       "kind: HorizontalPodAutoscaler\nmetadata: {name: h}\n",
	})
	m, err := Make(found, images())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Deployments, " "); got != "knative-eventing/c knative-ingress/ingress" {
		t.Errorf("required Deployments: %s", got)
	}
	definitions, rest := string(m.Definitions), string(m.Rest)
	if !strings.Contains(definitions, "ingresses") || strings.Contains(rest, "ingresses\"}") ||
		strings.Contains(rest, "job-sink") || strings.Contains(rest, "Autoscaler") ||
		!strings.Contains(rest, `"app.kubernetes.io/version":"v9"`) ||
		!strings.Contains(rest, ImageName(Ingress, "1")) {
		t.Errorf("definitions\n%s\nrest\n%s", definitions, rest)
	}
	other := images()
	other[Ingress] = ImageName(Ingress, "2")
	if again, err := Make(found, other); err != nil || again.Fingerprint() == m.Fingerprint() {
		t.Errorf("another image: want another fingerprint; got %s, %v", again.Fingerprint(), err)
	}
	if _, err := Make(found[1:], images()); err == nil || !strings.Contains(err.Error(), "knative.dev/eventing") {
		t.Errorf("without a module: got %v", err)
	}
}
