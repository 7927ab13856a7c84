package functest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	serving "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/yaml"
)

const image = "example.com/drydock@sha256:6c3c624b58dbbcd3c0dd82b4c53f04194d1247c6eebdaab7c610cf7d66709b3b"

// TestDeploySendsTheServiceOfEachFunction compares the Services that func deploy sends with those of deploy/. The image is named by its
// digest, as in docs/func.md. The fake API server creates nothing, so the test does not show that a cluster runs the Services.
func TestDeploySendsTheServiceOfEachFunction(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join(root, "deploy/*/service.yaml"))
	if err != nil || len(manifests) < 6 {
		t.Fatalf("found %v, %v", manifests, err)
	}
	for _, manifest := range manifests {
		function := filepath.Base(filepath.Dir(manifest))
		if function == "common" {
			continue // a patch for the other folders
		}
		t.Run(function, func(t *testing.T) {
			text, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			var want serving.Service
			if err := yaml.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			checkService(t, deployed(t, function), want)
		})
	}
}

// deployed returns the Service that func deploy sends for the function.
func deployed(t *testing.T, function string) serving.Service {
	t.Helper()
	api := record(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodPost:
			refuse(w, http.StatusForbidden, "Forbidden", "recorded, not created")
		case q.URL.Path == "/api/v1/namespaces/drydock/serviceaccounts/"+function: // func checks that it exists
			reply(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]string{"name": function}})
		default:
			refuse(w, http.StatusNotFound, "NotFound", "it does not exist")
		}
	})
	out, err := callFunc(t, environment(t, "KUBECONFIG="+kubeconfig(t, api.URL)),
		"deploy", "--path", projectOf(t, function), "--image", image, "--build=false", "--push=false", "--env",
		"DRYDOCK_IMAGE=example.com/mover")
	if err == nil || !strings.Contains(out, "recorded, not created") {
		t.Fatalf("func deploy: %v\n%s\nrequests:\n%s", err, out, api.requests())
	}
	sent, found := api.find(http.MethodPost, "/apis/serving.knative.dev/v1/namespaces/drydock/services")
	if !found {
		t.Fatalf("no Service was sent. The requests were:\n%s", api.requests())
	}
	var service serving.Service
	decoder := json.NewDecoder(bytes.NewReader(sent.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&service); err != nil {
		t.Fatalf("%v in %s", err, sent.body)
	}
	return service
}

// projectOf returns a folder with the func.yaml of one function. The command in docs/func.md makes it.
func projectOf(t *testing.T, function string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/func.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^(sed .* func\.yaml) > bin/\$f/func\.yaml$`).FindSubmatch(text)
	if command == nil {
		t.Fatal("docs/func.md has no command that makes the func.yaml of a function")
	}
	sed := exec.CommandContext(t.Context(), "sh", "-c", string(command[1]))
	sed.Dir, sed.Env = root, append(os.Environ(), "f="+function)
	project, err := sed.Output()
	if err != nil {
		t.Fatalf("%s: %v", command[1], err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "func.yaml"), project, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkService checks that Knative accepts the Service, and that its name, account, limits and visibility are those in deploy/. So the
// Triggers and rights of deploy/ and config/ apply to it.
func checkService(t *testing.T, got, want serving.Service) {
	t.Helper()
	got.SetDefaults(t.Context())
	if err := got.Validate(t.Context()); err != nil {
		t.Errorf("Knative refuses it: %v", err)
	}
	if got.Name != want.Name || got.Spec.Template.Spec.ServiceAccountName != want.Spec.Template.Spec.ServiceAccountName {
		t.Errorf("%s runs as %q", got.Name, got.Spec.Template.Spec.ServiceAccountName)
	}
	if got.Labels["networking.knative.dev/visibility"] != "cluster-local" {
		t.Errorf("labels %v", got.Labels)
	}
	if got.Spec.Template.Annotations["autoscaling.knative.dev/min-scale"] != "0" {
		t.Errorf("annotations %v", got.Spec.Template.Annotations)
	}
	container := got.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, variable := range container.Env {
		env[variable.Name] = variable.Value
	}
	if container.Image != image || env["FUNCTION"] != want.Name || env["ADDRESS"] != "0.0.0.0" || env["DRYDOCK_IMAGE"] != "example.com/mover" {
		t.Errorf("image %s, environment %v", container.Image, env)
	}
	if len(container.EnvFrom) != 1 || container.EnvFrom[0].ConfigMapRef.Name != "drydock-settings" {
		t.Errorf("settings from %v", container.EnvFrom)
	}
	if probePath(container.ReadinessProbe) != "/health/readiness" || probePath(container.LivenessProbe) != "/health/liveness" {
		t.Errorf("probes %v, %v", container.ReadinessProbe, container.LivenessProbe)
	}
	if memory := container.Resources.Limits.Memory().String(); memory != "128Mi" || *got.Spec.Template.Spec.ContainerConcurrency != 20 {
		t.Errorf("memory %s, concurrency %d", memory, *got.Spec.Template.Spec.ContainerConcurrency)
	}
}

func probePath(probe *corev1.Probe) string {
	if probe == nil || probe.HTTPGet == nil {
		return ""
	}
	return probe.HTTPGet.Path
}
