// Package rights makes the RBAC roles that allow Drydock to pause and stop operators' resources. The functions themselves do not need it.
package rights

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
)

// Label marks the ClusterRoles that are aggregated into pause-owner's rights to custom resources (config/rbac/owners.yaml).
const Label = api.Prefix + "owners"

// Roles returns the rights to pause and stop the operators' resources, one ClusterRole for each operator. Without operators, it returns
// one for each operator of the registry. An unknown operator is an error that names the known ones. No rule names single objects, because
// their names are not known in advance.
func Roles(registry owners.Registry, operators ...string) ([]*rbacv1.ClusterRole, error) {
	known := registry.Operators()
	if len(operators) == 0 {
		operators = known
	}
	var roles []*rbacv1.ClusterRole
	for _, operator := range operators {
		if !slices.Contains(known, operator) {
			return nil, fmt.Errorf("no operator is called %q; the operators are %s", operator, strings.Join(known, ", "))
		}
		roles = append(roles, role(registry, operator))
	}
	return roles, nil
}

// Bindings returns RoleBindings that give the roles to the account, a ServiceAccount in namespace drydock, in the namespaces only. It
// removes the roles from drydock-owners, which applies to every namespace.
func Bindings(roles []*rbacv1.ClusterRole, account string, namespaces ...string) []*rbacv1.RoleBinding {
	var bindings []*rbacv1.RoleBinding
	for _, role := range roles {
		delete(role.Labels, Label)
		for _, namespace := range namespaces {
			bindings = append(bindings, &rbacv1.RoleBinding{
				TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name, Labels: map[string]string{"app.kubernetes.io/name": "drydock"}},
				RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "drydock", Name: account}},
			})
		}
	}
	return bindings
}

// role returns the ClusterRole for one operator.
func role(registry owners.Registry, operator string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   "drydock-owners-" + operator,
			Labels: map[string]string{"app.kubernetes.io/name": "drydock", Label: "true"},
		},
	}
	for _, row := range registry {
		if row.Operator != operator || row.Unverified {
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{row.Group}, Verbs: []string{"get", "patch"}}
		if row.PausedThroughController {
			rule.Verbs = []string{"get"}
		}
		for _, kind := range row.Kinds {
			rule.Resources = append(rule.Resources, kind.Plural)
		}
		role.Rules = append(role.Rules, rule)
	}
	return role
}
