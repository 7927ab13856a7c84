package rights

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"drydock.dev/shared/owners"
)

// TestRolesOfOperator shows the rules for an operator with two rows.
// Invariants: I10.
func TestRolesOfOperator(t *testing.T) {
	roles, err := Roles(owners.BuiltIn(), "percona-pg")
	if err != nil || len(roles) != 1 || roles[0].Name != "drydock-owners-percona-pg" || roles[0].Labels[Label] != "true" {
		t.Fatalf("%v, %v", roles, err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"upstream.pgv2.percona.com"}, Resources: []string{"postgresclusters"}, Verbs: []string{"get"}},
		{APIGroups: []string{"pgv2.percona.com"}, Resources: []string{"perconapgclusters"}, Verbs: []string{"get", "patch"}},
	}
	if diff := cmp.Diff(want, roles[0].Rules); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStopNeedsSameRights: a row with only a stop needs the same rights as a pause, and a row that is off needs none.
// Invariants: I10.
func TestStopNeedsSameRights(t *testing.T) {
	registry, err := owners.LoadRegistry(`
- operator: percona-pxc
  group: acme.example.com
  kinds: [{name: Anvil, plural: anvils}]
  stop: [{field: spec.replicas, value: 0}]
`)
	if err != nil {
		t.Fatal(err)
	}
	roles, err := Roles(registry, "percona-pxc")
	if err != nil || len(roles) != 1 {
		t.Fatalf("%v, %v", roles, err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"pxc.percona.com"}, Resources: []string{"perconaxtradbclusters"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{"acme.example.com"}, Resources: []string{"anvils"}, Verbs: []string{"get", "patch"}},
	}
	if diff := cmp.Diff(want, roles[0].Rules); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := Roles(registry, "kubedb"); err == nil {
		t.Error("a row that is off has rights")
	}
}

// TestRolesAreNarrow: each rule names its group and its resources, and allows only reading and patching.
// Invariants: I10.
func TestRolesAreNarrow(t *testing.T) {
	roles, err := Roles(owners.BuiltIn())
	if err != nil || len(roles) != len(owners.BuiltIn().Operators()) {
		t.Fatalf("%d roles, %v", len(roles), err)
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			if len(rule.APIGroups) != 1 || len(rule.Resources) == 0 {
				t.Errorf("%s: %+v", role.Name, rule)
			}
			for _, word := range append(append(rule.APIGroups, rule.Resources...), rule.Verbs...) {
				if strings.Contains(word, "*") || word == "" || word == "delete" || word == "update" {
					t.Errorf("%s: %+v", role.Name, rule)
				}
			}
		}
	}
}

// TestUnknownOperator: the error names the known operators.
func TestUnknownOperator(t *testing.T) {
	if _, err := Roles(owners.BuiltIn(), "eck", "oracle"); err == nil || !strings.Contains(err.Error(), "redis-operator") {
		t.Errorf("got %v, want the known operators", err)
	}
}
