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
)

const rowsOfOurOwn = `
- operator: acme
  group: acme.example.com
  kinds: [{name: Anvil, plural: anvils}]
  stop: [{field: spec.replicas, value: 0}]
`

// rolesOf runs kubectl drydock rbac, which needs no cluster, and reads what it prints.
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
	file := rowsFile(t, rowsOfOurOwn)
	for name, tc := range map[string]struct {
		in   string
		args []string
		want string
	}{
		"some":              {"", []string{"--owners", "rabbitmq,percona-pxc"}, "rabbitmq percona-pxc"},
		"all":               {"", []string{"--owners", "all"}, strings.Join(all, " ")},
		"ours of a file":    {"", []string{"--owners", "acme", "--file", file}, "acme"},
		"ours of the input": {rowsOfOurOwn, []string{"--owners", "eck,acme", "-f", "-"}, "eck acme"},
		"all and ours":      {"", []string{"--owners", "all", "--file", file}, "acme " + strings.Join(all, " ")},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := rolesOf(t, tc.in, tc.args...)
			if got := strings.Join(names, " "); err != nil || got != tc.want {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestRolesThatCannotBePrinted(t *testing.T) {
	bad := rowsFile(t, strings.Replace(rowsOfOurOwn, "acme.example.com", "apps", 1))
	for name, tc := range map[string]struct {
		in   string
		args []string
		want string
	}{
		"no owners":                {"", nil, `required flag(s) "owners" not set`},
		"an unknown one":           {"", []string{"--owners", "acme"}, `no operator "acme"; there are `},
		"a file that is not there": {"", []string{"--owners", "all", "--file", "none.yaml"}, "open none.yaml"},
		"a file of wrong rows":     {"", []string{"--owners", "all", "--file", bad}, "from " + bad + ":\nrow 1 (operator \"acme\"): group: "},
		"wrong input":              {"x", []string{"--owners", "all", "--file", "-"}, "from standard input:\nthe rows of owners are no list"},
		"input without an end":     {strings.Repeat("#", 2*mostFile), []string{"--owners", "all", "--file", "-"}, "at most 65536 are read"},
	} {
		t.Run(name, func(t *testing.T) {
			if names, err := rolesOf(t, tc.in, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, %v; want %q", names, err, tc.want)
			}
		})
	}
}

// TestRightsInSomeNamespacesOnly: the roles are no part of the one that counts everywhere, and a RoleBinding gives each.
func TestRightsInSomeNamespacesOnly(t *testing.T) {
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
			t.Errorf("the role counts everywhere:\n%s", text)
		}
	}
	want := "shop/drydock-owners-eck drydock/other, search/drydock-owners-eck drydock/other, " +
		"shop/drydock-owners-keda drydock/other, search/drydock-owners-keda drydock/other"
	if got := strings.Join(bound, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
