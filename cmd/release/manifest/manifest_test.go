package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/install"
)

const (
	digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	image  = "registry.example.com/drydock" + digest
	engine = "registry.example.com/drydock-standalone" + digest
)

// TestManifestsAreWhatTheCommandInstalls compares the manifests with kubectl drydock install, object by object and in order.
func TestManifestsAreWhatTheCommandInstalls(t *testing.T) {
	files, err := Files(image, engine)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Errorf("%d files, want 4", len(files))
	}
	for _, mode := range []install.Mode{install.Standalone, install.Knative} {
		want, err := install.Render(install.Options{Mode: mode, Image: image, StandaloneImage: engine})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimPrefix(string(files["drydock-"+string(mode)+".yaml"]), "---\n"), "\n---\n")
		if len(got) != len(want) {
			t.Fatalf("%s: %d documents, want %d", mode, len(got), len(want))
		}
		for n, object := range want {
			text, err := yaml.Marshal(object.Object)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(strings.TrimSpace(string(text)), strings.TrimSpace(got[n])); difference != "" {
				t.Errorf("%s %s: %s", mode, object.GetName(), difference)
			}
		}
	}
}

func TestEditedManifestsHaveOnlyTheirPolicies(t *testing.T) {
	files, err := Files(image, engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v1beta1"} {
		var kinds []string
		text := strings.TrimPrefix(string(files["drydock-edited-manifests-"+version+".yaml"]), "---\n")
		for document := range strings.SplitSeq(text, "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, fmt.Sprint(object.GetKind(), " ", object.GetName()))
			if strings.HasPrefix(object.GetKind(), "Mutating") && object.GroupVersionKind().Version != version {
				t.Errorf("%s has version %s", object.GetName(), object.GetAPIVersion())
			}
		}
		const want = "MutatingAdmissionPolicy drydock-grown, MutatingAdmissionPolicyBinding drydock-grown, " +
			"MutatingAdmissionPolicy drydock-templates, MutatingAdmissionPolicyBinding drydock-templates, " +
			"ValidatingAdmissionPolicy drydock-templates, ValidatingAdmissionPolicyBinding drydock-templates"
		if got := strings.Join(kinds, ", "); got != want {
			t.Errorf("%s: got %s", version, got)
		}
	}
}
