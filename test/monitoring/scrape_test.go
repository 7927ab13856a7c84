package monitoring

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// podMonitor is the part of a PodMonitor that config/monitoring uses.
type podMonitor struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		Selector            selector   `yaml:"selector"`
		PodMetricsEndpoints []endpoint `yaml:"podMetricsEndpoints"`
	} `yaml:"spec"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type endpoint struct {
	Port     string `yaml:"port"`
	Path     string `yaml:"path"`
	Interval string `yaml:"interval"`
}

// deployment is the part of the standalone Deployment that concerns Prometheus.
type deployment struct {
	Kind     string
	Metadata struct{ Namespace string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Ports []struct{ Name string }
				}
			}
		}
	}
}

// networkPolicy is the part of the standalone NetworkPolicy that concerns Prometheus.
type networkPolicy struct {
	Kind string
	Spec struct {
		Ingress []struct{ Ports []struct{ Port string } }
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// first returns the first document of the file that satisfies the condition.
func first[T any](t *testing.T, name string, wanted func(T) bool) T {
	t.Helper()
	for documents := yaml.NewDecoder(bytes.NewReader(read(t, name))); ; {
		var document T
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s has no such document", name)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if wanted(document) {
			return document
		}
	}
}

// TestPodMonitorSelectsStandalonePods: the labels and the port are those of the Deployment, and its NetworkPolicy opens the port.
func TestPodMonitorSelectsStandalonePods(t *testing.T) {
	var monitor podMonitor
	strict := yaml.NewDecoder(bytes.NewReader(read(t, "config/monitoring/podmonitor.yaml")))
	strict.KnownFields(true)
	if err := strict.Decode(&monitor); err != nil {
		t.Fatal(err)
	}
	drydock := first(t, "deploy/standalone/deployment.yaml", func(d deployment) bool { return d.Kind == "Deployment" })
	policy := first(t, "deploy/standalone/network.yaml", func(p networkPolicy) bool { return p.Kind == "NetworkPolicy" })
	if monitor.APIVersion != "monitoring.coreos.com/v1" || monitor.Kind != "PodMonitor" || len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("%+v is not a PodMonitor of one port", monitor)
	}
	if monitor.Metadata.Namespace != drydock.Metadata.Namespace { // without namespaceSelector, it selects pods of its own namespace
		t.Errorf("the PodMonitor is in namespace %q, the pods are in %q", monitor.Metadata.Namespace, drydock.Metadata.Namespace)
	}
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if got := drydock.Spec.Template.Metadata.Labels[key]; got != value {
			t.Errorf("the PodMonitor selects %s=%s, the pods have %q", key, value, got)
		}
	}
	if len(monitor.Spec.Selector.MatchLabels) == 0 {
		t.Error("the PodMonitor selects every pod of the namespace")
	}
	scraped := monitor.Spec.PodMetricsEndpoints[0].Port
	var named, open bool
	for _, container := range drydock.Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			named = named || port.Name == scraped
		}
	}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open = open || port.Port == scraped
		}
	}
	if !named || !open {
		t.Errorf("port %s: the Deployment has it: %t, the NetworkPolicy opens it: %t", scraped, named, open)
	}
}

// TestKustomizationInstallsEveryManifest: kubectl apply -k config/monitoring applies every file of the folder.
func TestKustomizationInstallsEveryManifest(t *testing.T) {
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(read(t, "config/monitoring/kustomization.yaml"), &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/monitoring/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name != "kustomization.yaml" && !slices.Contains(kustomization.Resources, name) {
			t.Errorf("the kustomization does not list %s", name)
		}
	}
}
