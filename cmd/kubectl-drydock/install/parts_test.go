package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExpectedParts compares the expected parts with other files that name them.
func TestExpectedParts(t *testing.T) {
	expected, err := Expected()
	if err != nil {
		t.Fatal(err)
	}
	policies, err := Policies()
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := render(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../config/overlays/namespace"}})
	if err != nil {
		t.Fatal(err)
	}
	withBinding := slices.Sorted(slices.Values(slices.Concat(expected.Policies, expected.Warnings)))
	for subject, row := range map[string]struct{ want, got []string }{
		"each policy has a binding": {named(policies, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"), withBinding},
		"an installation for one namespace binds the same functions": {
			slices.DeleteFunc(named(namespace, "rbac.authorization.k8s.io/v1", "RoleBinding"), inHomeNamespace), expected.FunctionBindings},
		"make deploy deploys the functions": {functionsOfMakefile(t), expected.Functions},
		"the bindings of accounts":          {bindingsOfAccounts(t), expected.Bindings},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" || len(row.want) == 0 {
			t.Errorf("%s (-files +expected):\n%s", subject, diff)
		}
	}
	if !slices.Equal(expected.Warnings, []string{"drydock-misplaced"}) {
		t.Errorf("policies that only warn: %v", expected.Warnings)
	}
	if len(expected.Accounts) == 0 || len(expected.ClusterRoles) == 0 || len(expected.Triggers) == 0 {
		t.Errorf("parts are missing: %+v", expected)
	}
}

// inHomeNamespace reports whether the RoleBinding gives a right in namespace drydock, which every installation has.
func inHomeNamespace(binding string) bool {
	return slices.Contains([]string{"drydock-mover-image", "drydock-turns", "drydock-turns-reader", "drydock-volume-stats-token"}, binding)
}

func functionsOfMakefile(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nFUNCTIONS := ")
	line, _, _ := strings.Cut(strings.ReplaceAll(rest, "\\\n", ""), "\n")
	if !found {
		t.Fatal("Makefile has no FUNCTIONS")
	}
	return slices.Sorted(slices.Values(strings.Fields(line)))
}

func bindingsOfAccounts(t *testing.T) []string {
	t.Helper()
	objects, err := render(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../config/accounts"}})
	if err != nil {
		t.Fatal(err)
	}
	return named(objects, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
}
