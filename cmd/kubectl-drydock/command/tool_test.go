package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// useServer makes the server the present context of the kubeconfig, and its only other one, prod. So the output of commands does not
// contain the address of the server.
func useServer(t *testing.T, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: test, context: {cluster: test}}, {name: prod, context: {cluster: test}}]
current-context: test
`, url)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// TestFlagsOfTheConnectionAreWrittenForAShell: a secret is not repeated, and flags that do not choose the cluster are left out.
func TestFlagsOfTheConnectionAreWrittenForAShell(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "",
		"-n shop --request-timeout 5s":           "",
		"--context prod":                         " --context=prod",
		"--kubeconfig /my|clusters/it's --as me": ` --kubeconfig='/my clusters/it'\''s' --as=me`,
		"--as me --as-group a --as-group b":      " --as=me --as-group=a --as-group=b",
		"--insecure-skip-tls-verify --user u --cluster c --server https://h:1": " --cluster=c --user=u --server=https://h:1 " +
			"--insecure-skip-tls-verify=true",
		"--token secret": " --token=TOKEN",
	} {
		c := &cobra.Command{}
		genericclioptions.NewConfigFlags(true).AddFlags(c.PersistentFlags())
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "|", " ")
		}
		if err := c.ParseFlags(words); err != nil {
			t.Fatal(err)
		}
		if got := (&tool{flags: c.PersistentFlags()}).connection(); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// TestSuggestionsAreFollowedByTheFlags: without --context, the suggested command would change another cluster.
func TestSuggestionsAreFollowedByTheFlags(t *testing.T) {
	moving := build.Status(build.Operation(api.Moving, build.Members(api.MemberCopying, "data-web-0")))
	for _, row := range []struct {
		args    string
		options []build.Option
	}{
		{"retry sts/web", []build.Option{build.Label(api.ManagedLabel, "")}},
		{"status sts/web", []build.Option{build.Status(build.Operation(api.Failed)), build.Resize("data=128Mi")}},
		{"status sts/web --wait --timeout 1ms", []build.Option{moving}},
		{"abort sts/web --yes", []build.Option{moving}},
		{"approve sts/web", []build.Option{moving}},
		{"sleep sts/web --yes", nil},
		{"sleep sts/web --yes", []build.Option{build.Replicas(0)}},
		{"wake sts/web", []build.Option{build.Replicas(0)}},
		{"wake sts/web", []build.Option{build.Replicas(0), withScaling(api.Succeeded)}},
		{"wake sts/web", []build.Option{build.Replicas(0), withPausedScaler()}},
	} {
		said, err := newCluster(t, build.Set("web", row.options...)).run(t, append(strings.Fields(row.args), "--context", "prod")...)
		namesFlags(t, row.args, said, err)
	}
	s := newLogServer(t)
	s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Label(api.ManagedLabel, ""))}
	said, reminder, err := s.run(t, "plan", "sts/web", "--resize", "data=2Gi", "--context", "prod")
	namesFlags(t, "plan", said+reminder, err)
	s.Lists["persistentvolumes"] = []metav1.Object{oldVolume(build.ID, "pv-a")}
	said, reminder, err = s.run(t, "release", "--context", "prod")
	namesFlags(t, "release", said+reminder, err)
	s.forbidden["/statefulsets"] = true
	said, reminder, err = s.run(t, "list", "--context", "prod")
	namesFlags(t, "list", said+reminder, err)
}

// TestNoSuggestionNoReminder: an output without a command, and one on the default cluster, are not followed by flags.
func TestNoSuggestionNoReminder(t *testing.T) {
	moved := build.Status(build.Operation(api.Succeeded))
	failed := build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.Message = "Look at kubectl get pods" }))
	said, err := newCluster(t, build.Set("web", failed)).run(t, "status", "sts/web", "-o", "json", "--context", "prod")
	if err != nil || !strings.Contains(said, "kubectl ") || !json.Valid([]byte(said)) {
		t.Errorf("a program cannot read it: %v\n%s", err, said)
	}
	for args, flags := range map[string][]string{"status sts/web -o name": {"--context", "prod"}, "list -o name": {"--context", "prod"},
		"list": nil} {
		said, _ := newCluster(t, build.Set("web", moved)).run(t, append(strings.Fields(args), flags...)...)
		if strings.Contains(said, "Add your flags") {
			t.Errorf("%s says:\n%s", args, said)
		}
	}
}

// namesFlags reports an output or an error with a command that no reminder of --context follows.
func namesFlags(t *testing.T, args, said string, err error) {
	t.Helper()
	if err != nil {
		said += ErrorText(err)
	}
	if !strings.Contains(said, "kubectl ") || strings.Count(said, "Add your flags to suggested commands: --context=prod\n") != 1 {
		t.Errorf("%s says:\n%s", args, said)
	}
}
