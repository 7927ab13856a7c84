package chart

import (
	"testing"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// TestChartRefusesTheImagesThatTheCommandRefuses: the chart and the command have the same opinion about an image.
func TestChartRefusesTheImagesThatTheCommandRefuses(t *testing.T) {
	chart := load(t)
	for _, image := range []string{
		"drydock" + digest,                      // names no registry
		"team/drydock" + digest,                 // names no registry either
		"registry.example.com/drydock@sha256:0", // no digest
		"registry.example.com/drydock@sha256:",
	} {
		o := install.Options{Mode: install.Standalone, Image: image, StandaloneImage: standaloneImage}
		if o.Check() == nil {
			t.Fatalf("the command accepts %s", image)
		}
		if _, err := helmRenders(chart, map[string]any{"image": image}, "default"); err == nil {
			t.Errorf("the chart accepts %s, which the command refuses: %v", image, o.Check())
		}
	}
}

// TestNamespaceSurvivesCreateNamespaceFalse: an upgrade with createNamespace=false removes the Namespace from the release. Helm then
// deletes it with everything in it, unless it has the annotation helm.sh/resource-policy: keep.
func TestNamespaceSurvivesCreateNamespaceFalse(t *testing.T) {
	chart := load(t)
	before, err := helmRenders(chart, nil, "default")
	if err != nil {
		t.Fatal(err)
	}
	after, err := helmRenders(chart, map[string]any{"createNamespace": false}, "default")
	if err != nil {
		t.Fatal(err)
	}
	const key = "v1 Namespace /drydock"
	namespace, still := objectsOf(t, before)[key], objectsOf(t, after)[key]
	metadata, _ := namespace["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if still == nil && annotations["helm.sh/resource-policy"] != "keep" {
		t.Error("helm upgrade --set createNamespace=false deletes the namespace drydock with the functions, accounts and settings")
	}
}

// TestSettingsOfStandaloneHaveAnEffect: the Deployment sets variables itself, which override those of the ConfigMap.
func TestSettingsOfStandaloneHaveAnEffect(t *testing.T) {
	chart := load(t)
	for _, name := range []string{"GOMEMLIMIT", "DRYDOCK_IMPERSONATE"} {
		files, err := helmRenders(chart, map[string]any{"settings": map[string]any{name: "mine"}}, "default")
		if err != nil {
			continue // refused, which is as good
		}
		deployment := objectsOf(t, files)["apps/v1 Deployment drydock/drydock-standalone"]
		pod := deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		for _, variable := range pod["containers"].([]any)[0].(map[string]any)["env"].([]any) {
			if v := variable.(map[string]any); v["name"] == name && v["value"] != "mine" {
				t.Errorf("settings.%s is accepted, and the Deployment overrides it with %v", name, v["value"])
			}
		}
	}
}
