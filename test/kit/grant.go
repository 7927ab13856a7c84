package kit

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Grant gives a user verbs on resources, as kubectl names them, in the whole cluster until the test ends. The rights come into force after
// a moment.
func (w *World) Grant(user, verbs, resources string) {
	w.T.Helper()
	ctx := context.Background()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: w.Namespace + "-"}}
	for _, name := range strings.Fields(resources) {
		resource := schema.ParseGroupResource(name)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{resource.Group},
			Resources: []string{resource.Resource}})
	}
	role, err := w.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	w.must(err)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	_, err = w.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() {
		_ = w.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})
		_ = w.Kube.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
	})
}
