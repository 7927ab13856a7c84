package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// root is the folder of the project.
var root = filepath.Join("..", "..", "..")

var allPolicies = slices.Concat(ValidatingPolicies, OptionalPolicies, WarningPolicies)

// TestExpectedNamesAreThoseOfTheManifests: a new policy, account, role, binding or Trigger is also checked by the doctor.
func TestExpectedNamesAreThoseOfTheManifests(t *testing.T) {
	for subject, row := range map[string]struct {
		expected []string
		kind     string
		files    []string
	}{
		"policies":              {allPolicies, "ValidatingAdmissionPolicy", []string{"config/policy/*.yaml"}},
		"bindings of policies":  {allPolicies, "ValidatingAdmissionPolicyBinding", []string{"config/policy/*.yaml"}},
		"accounts":              {ServiceAccounts, "ServiceAccount", []string{"config/accounts/*.yaml"}},
		"roles":                 {ClusterRoles, "ClusterRole", []string{"config/rbac/*.yaml", "config/policy/*.yaml", "config/accounts/*.yaml"}},
		"bindings of accounts":  {ClusterBindings, "ClusterRoleBinding", []string{"config/accounts/*.yaml"}},
		"bindings of functions": {FunctionBindings, "ClusterRoleBinding", []string{"config/bindings/*.yaml"}},
		"bindings of a namespace": {FunctionBindings, "RoleBinding",
			[]string{"config/overlays/namespace/bindings.yaml"}},
		"Triggers": {Triggers, "Trigger", []string{"deploy/*/triggers.yaml"}},
		"Services": {Functions, "Service", []string{"deploy/*-*/service.yaml", "deploy/[a-bd-z]*/service.yaml"}},
	} {
		want := slices.Sorted(slices.Values(row.expected))
		if diff := cmp.Diff(namesIn(t, row.kind, row.files), want); diff != "" {
			t.Errorf("%s (-manifests +doctor):\n%s", subject, diff)
		}
	}
}

func TestFunctionsAreThoseOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nFUNCTIONS := ")
	line, _, _ := strings.Cut(strings.ReplaceAll(rest, "\\\n", ""), "\n")
	if diff := cmp.Diff(strings.Fields(line), Functions); !found || diff != "" {
		t.Errorf("(-Makefile +doctor)\n%s", diff)
	}
}

// namesIn returns the sorted names of the objects of the kind in the files.
func namesIn(t *testing.T, kind string, patterns []string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, namesOf(t, kind, string(text))...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf(t *testing.T, kind, text string) []string {
	t.Helper()
	var found []string
	for _, document := range strings.Split(text, "\n---\n") {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		fields, isObject := object.(map[string]any)
		if !isObject || fields["kind"] != kind {
			continue
		}
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			found = append(found, metadata["name"].(string))
		}
	}
	return found
}
