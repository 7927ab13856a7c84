//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// Policies that keep users from writing Drydock's records and links.
const (
	recordsPolicy = "drydock-records"
	linksPolicy   = "drydock-links"
)

// tenant returns a user with all rights in the world's namespace and none elsewhere.
func tenant(t *testing.T, w *kit.World) (user string, client kubernetes.Interface) {
	t.Helper()
	user = "tenant-" + w.Namespace
	roles := w.Kube.RbacV1().Roles(w.Namespace)
	all := []string{"*"}
	if _, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	if _, err := w.Kube.RbacV1().RoleBindings(w.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client = kubernetes.NewForConfigOrDie(config)
	w.Eventually("the tenant has rights", func() string {
		if _, err := client.AppsV1().StatefulSets(w.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return user, client
}

// TestTenantCannotForgeRecords: a user with all rights in a namespace may write the input of Drydock, and may only
// remove its records.
func TestTenantCannotForgeRecords(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	sets := client.AppsV1().StatefulSets(w.Namespace)
	try := func(metadata string, subresource ...string) error {
		_, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{`+metadata+`}}`), metav1.PatchOptions{},
			subresource...)
		return err
	}
	own := []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation, api.DeadLettersAnnotation}
	for _, key := range own {
		expectForbidden(t, "writing "+key, recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key)))
		expectForbidden(t, "writing it with the status", recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key), "status"))
	}
	expectForbidden(t, "asking for a cleanup pod with the status", recordsPolicy,
		try(`"annotations":{"drydock.dev/cleanup-pod-template":"x"}`, "status"))
	expectForbidden(t, "opting in with the status", recordsPolicy, try(`"labels":{"drydock.dev/group":"x"}`, "status"))
	for _, metadata := range []string{`"annotations":{"drydock.dev/resize":"data=64Mi","drydock.dev/retry":"now","note":"mine"}`,
		`"labels":{"drydock.dev/group":"g"}`} {
		if err := try(metadata); err != nil {
			t.Errorf("input %s: %v", metadata, err)
		}
	}
	for _, key := range own { // by an administrator, as if it were Drydock
		w.Annotate("web", map[string]string{key: "{}"})
		expectForbidden(t, "changing "+key, recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key)))
		if err := try(fmt.Sprintf(`"annotations":{%q:null}`, key)); err != nil {
			t.Errorf("removing %s: %v", key, err)
		}
	}
}

// TestTenantCannotLinkObjects: only Drydock links a claim or a pod to an operation, or signals a mover.
func TestTenantCannotLinkObjects(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	link := []byte(`{"metadata":{"annotations":{"drydock.dev/operation":"{}"}}}`)
	label := []byte(`{"metadata":{"labels":{"drydock.dev/operation":"0123456789ab"}}}`)
	for _, body := range [][]byte{link, label} {
		_, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, body,
			metav1.PatchOptions{})
		expectForbidden(t, "linking a claim", linksPolicy, err)
		_, err = client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType, body, metav1.PatchOptions{})
		expectForbidden(t, "linking a pod", linksPolicy, err)
	}
	for _, key := range []string{moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		_, err := client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+key+`":"{}"}}}`), metav1.PatchOptions{})
		expectForbidden(t, "telling a mover", linksPolicy, err)
	}
	note := []byte(`{"metadata":{"annotations":{"note":"mine"}}}`)
	if _, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, note,
		metav1.PatchOptions{}); err != nil {
		t.Errorf("annotating a claim: %v", err)
	}
}

// TestWriterMayWriteRecords: the exemption is a right in the whole cluster.
func TestWriterMayWriteRecords(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	user, client := tenant(t, w)
	forge := func() error {
		_, err := client.AppsV1().StatefulSets(w.Namespace).Patch(t.Context(), "web", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"drydock.dev/status":"{}"}}}`), metav1.PatchOptions{DryRun: dry})
		return err
	}
	expectForbidden(t, "without it", recordsPolicy, forge())
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-writer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	bindings := w.Kube.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bindings.Delete(context.Background(), user, metav1.DeleteOptions{}) })
	w.Eventually("the writer may", func() string {
		if err := forge(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestPoliciesAreWellTyped: the API server has checked the types in the expressions.
func TestPoliciesAreWellTyped(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Eventually("the expressions are checked", func() string {
		policies, err := w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		checked := 0
		for _, policy := range policies.Items {
			switch {
			case !strings.HasPrefix(policy.Name, "drydock-"):
			case policy.Status.ObservedGeneration != policy.Generation:
				return policy.Name + " is not"
			case policy.Status.TypeChecking == nil: // no warnings
				checked++
			default:
				checked++
				for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
					t.Errorf("%s: %s: %s", policy.Name, warning.FieldRef, warning.Warning)
				}
			}
		}
		if checked < 10 {
			return fmt.Sprintf("only %d policies are there", checked)
		}
		return ""
	})
}

// expectForbidden checks that the admission policy has denied the request. The words, if any, tell which of its rules did.
func expectForbidden(t *testing.T, what, policy string, err error, words ...string) {
	t.Helper()
	if !deniedBy(err, policy, words...) {
		t.Errorf("%s: got %v, want a denial by policy %s that mentions %q", what, err, policy, words)
	}
}

// deniedBy reports whether the error is a denial by the admission policy that contains every word. The API server names the policy in
// the error (kubernetes apiserver pkg/admission/plugin/policy/validating). A policy of one World has the namespace before its name.
func deniedBy(err error, policy string, words ...string) bool {
	return apierrors.IsForbidden(err) && mentions(err.Error(), append(words, policy+"'")...)
}

// mentions reports whether the text contains every word. Tests look for names and figures in a message; golden files of unit tests have
// the sentences.
func mentions(text string, words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}
