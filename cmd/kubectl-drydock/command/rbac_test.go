package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/owners"
	"drydock.dev/test/golden"
)

const customRows = `
- operator: acme
  group: acme.example.com
  kinds: [{name: Anvil, plural: anvils}]
  stop: [{field: spec.replicas, value: 0}]
`

// rolesOf runs kubectl drydock rbac, which needs no cluster, and returns the operators of the printed ClusterRoles.
func rolesOf(t *testing.T, in string, args ...string) ([]string, error) {
	t.Helper()
	var out bytes.Buffer
	root := New(genericiooptions.IOStreams{In: strings.NewReader(in), Out: &out, ErrOut: &out})
	root.SetArgs(append([]string{"rbac"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		return nil, err
	}
	var names []string
	for _, text := range strings.Split(out.String(), "---\n")[1:] {
		role := rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(text), &role); err != nil || role.Kind != "ClusterRole" || len(role.Rules) == 0 {
			t.Fatalf("%v\n%s", err, text)
		}
		names = append(names, strings.TrimPrefix(role.Name, "drydock-owners-"))
	}
	return names, nil
}

func rowsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRolesArePrinted(t *testing.T) {
	all := owners.BuiltIn().Operators()
	file := rowsFile(t, customRows)
	for name, tc := range map[string]struct {
		in   string
		args []string
		want string
	}{
		"some operators":                   {"", []string{"--owners", "rabbitmq,percona-pxc"}, "rabbitmq percona-pxc"},
		"all operators":                    {"", []string{"--owners", "all"}, strings.Join(all, " ")},
		"a custom row from a file":         {"", []string{"--owners", "acme", "--file", file}, "acme"},
		"a custom row from standard input": {customRows, []string{"--owners", "eck,acme", "-f", "-"}, "eck acme"},
		"all, and a custom row":            {"", []string{"--owners", "all", "--file", file}, "acme " + strings.Join(all, " ")},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := rolesOf(t, tc.in, tc.args...)
			if got := strings.Join(names, " "); err != nil || got != tc.want {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestRolesAreNotPrintedForMistakes(t *testing.T) {
	bad := rowsFile(t, strings.Replace(customRows, "acme.example.com", "apps", 1))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        string
		args      []string
	}{
		{"the flag --owners is missing", "", nil},
		{"an operator is unknown", "", []string{"--owners", "acme"}},
		{"the file does not exist", "", []string{"--owners", "all", "--file", "none.yaml"}},
		{"a row of the file is invalid", "", []string{"--owners", "all", "--file", bad}},
		{"the input is no list", "x", []string{"--owners", "all", "--file", "-"}},
		{"the input is longer than allowed", strings.Repeat("#", 2*maxFile), []string{"--owners", "all", "--file", "-"}},
	} {
		names, err := rolesOf(t, row.in, row.args...)
		if err == nil {
			t.Errorf("%s: %q, and no error", row.situation, names)
			continue
		}
		file.Entry(t, row.situation, "error: "+strings.ReplaceAll(err.Error(), bad, "FILE"))
	}
}

// TestRightsCanBeLimitedToNamespaces: the roles are not aggregated into the ClusterRole drydock-owners. RoleBindings grant them.
func TestRightsCanBeLimitedToNamespaces(t *testing.T) {
	var out bytes.Buffer
	root := New(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
	root.SetArgs([]string{"rbac", "--owners", "eck,keda", "--in", "shop,search", "--account", "other"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, text := range strings.Split(out.String(), "---\n")[1:] {
		binding := rbacv1.RoleBinding{}
		if strings.Contains(text, "kind: RoleBinding") {
			if err := yaml.UnmarshalStrict([]byte(text), &binding); err != nil || len(binding.Subjects) != 1 {
				t.Fatalf("%v\n%s", err, text)
			}
			bound = append(bound, binding.Namespace+"/"+binding.RoleRef.Name+" "+binding.Subjects[0].Namespace+"/"+binding.Subjects[0].Name)
		} else if strings.Contains(text, "drydock.dev/owners") {
			t.Errorf("the role is aggregated into drydock-owners:\n%s", text)
		}
	}
	want := "shop/drydock-owners-eck drydock/other, search/drydock-owners-eck drydock/other, " +
		"shop/drydock-owners-keda drydock/other, search/drydock-owners-keda drydock/other"
	if got := strings.Join(bound, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
