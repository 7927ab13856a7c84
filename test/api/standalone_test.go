//go:build cluster

package api

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit"
)

// TestStolenStandaloneToken: the process has no rights. It may impersonate the functions' accounts, where the fences
// apply, and no other.
func TestStolenStandaloneToken(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	account := filepath.Join(kit.Root(t), "deploy", "standalone", "account.yaml")
	if out, err := exec.Command(kit.Kubectl(t), "--kubeconfig", kit.APIPath(t), "apply", "--server-side", "--force-conflicts", "-f",
		account).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := stealToken(t, l, "drydock-standalone")
	for _, all := range thefts {
		for _, theft := range all {
			if s.may(t, theft.what, theft.try(s)) {
				t.Errorf("its own token suffices to %s", theft.what)
			}
		}
	}
	l.w.Eventually("it may work as a function", func() string {
		if err := s.impersonates(t, string(api.Backup)).listSets(); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, name := range accounts {
		if err := s.impersonates(t, name).listSets(); apierrors.IsForbidden(err) && strings.Contains(err.Error(), "impersonate") {
			t.Errorf("it may not work as %s: %v", name, err)
		}
	}
	backup := s.impersonates(t, string(api.Backup))
	for _, theft := range setThefts {
		want := strings.Contains(theft.who, "backup")
		if backup.may(t, theft.what, theft.try(backup)) != want {
			t.Errorf("working as backup, it may %s: want %t", theft.what, want)
		}
	}
	for _, name := range []string{"default", "drydock-standalone", "other"} {
		if err := s.impersonates(t, name).listSets(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
			t.Errorf("working as account %s: %v", name, err)
		}
	}
	for _, user := range []rest.ImpersonationConfig{{UserName: "admin"}, {UserName: "system:serviceaccount:kube-system:default"},
		{UserName: "system:serviceaccount:drydock:backup", Groups: []string{"system:masters"}}} {
		if err := s.asUser(t, user).listSets(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
			t.Errorf("working as %v: %v", user, err)
		}
	}
}

func (s *thief) listSets() error {
	_, err := s.kube.AppsV1().StatefulSets(s.w.Namespace).Get(s.ctx, "web", metav1.GetOptions{})
	return err
}

// impersonates returns the thief as an account of Drydock's namespace.
func (s *thief) impersonates(t *testing.T, account string) *thief {
	t.Helper()
	return s.asUser(t, kube.Impersonate(&rest.Config{}, api.Function(account)).Impersonate)
}

func (s *thief) asUser(t *testing.T, user rest.ImpersonationConfig) *thief {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.Impersonate = user
	other := *s
	other.config, other.kube = config, kubernetes.NewForConfigOrDie(config)
	return &other
}
