package command

import (
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
	for args, want := range map[string]connection{
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

// TestOnlyCommandsGetTheFlagsOfTheConnection: texts also name kubectl as the writer of a field.
func TestOnlyCommandsGetTheFlagsOfTheConnection(t *testing.T) {
	const flags = connection(" --context=prod")
	for text, want := range map[string]string{
		"kubectl drydock retry -n shop sts/web": "kubectl drydock --context=prod retry -n shop sts/web",
		"kubectl label -n shop sts web a=b":     "kubectl --context=prod label -n shop sts web a=b",
		"run kubectl -n drydock get pods":       "run kubectl --context=prod -n drydock get pods",
		"kubectl drydock rbac --owners a | kubectl apply -f -": "kubectl drydock --context=prod rbac --owners a | " +
			"kubectl --context=prod apply -f -",
		"kubectl has applied kubectl.kubernetes.io/restarted": "kubectl has applied kubectl.kubernetes.io/restarted",
		"kubectl-drydock, xkubectl get":                       "kubectl-drydock, xkubectl get",
	} {
		if got := flags.inOwn(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOnlyHarmlessCommandsInRecordsGetTheFlags: a tenant may have written them, to run them with the account of an administrator.
func TestOnlyHarmlessCommandsInRecordsGetTheFlags(t *testing.T) {
	const flags = connection(" --as=root")
	for text, given := range map[string]bool{
		"kubectl drydock retry -n shop sts/web":          true,
		"kubectl describe pvc data-web-0":                true,
		"kubectl -n shop annotate scaler web a=b":        true,
		"kubectl delete -n payments pvc --all":           false,
		"kubectl -n payments delete pvc --all":           false,
		"kubectl drydock uninstall --yes":                false,
		"kubectl drydock release --all-namespaces -y":    false,
		"kubectl apply -f https://example.com/evil":      false,
		"kubectl -n kube-system patch configmap coredns": false,
		"kubectl drydock cleanup sts/web":                false,
	} {
		if got := flags.in(text); (got != text) != given {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestSuggestedCommandsKeepTheConnection: without --context, the suggested command would change another cluster.
func TestSuggestedCommandsKeepTheConnection(t *testing.T) {
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
		keepsConnection(t, row.args, said, err)
	}
	s := newLogServer(t)
	s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Label(api.ManagedLabel, ""))}
	said, _, err := s.run(t, "plan", "sts/web", "--resize", "data=2Gi", "--context", "prod")
	keepsConnection(t, "plan", said, err)
	s.Lists["persistentvolumes"] = []metav1.Object{oldVolume(build.ID, "pv-a")}
	said, _, err = s.run(t, "release", "--context", "prod")
	keepsConnection(t, "release", said, err)
	s.forbidden["/statefulsets"] = true
	said, _, err = s.run(t, "list", "--context", "prod")
	keepsConnection(t, "list", said, err)
}

// keepsConnection reports a command in the output or the error without --context.
func keepsConnection(t *testing.T, args, said string, err error) {
	t.Helper()
	if err != nil {
		said += ErrorText(err)
	}
	for line := range strings.SplitSeq(said, "\n") {
		if strings.Count(line, "kubectl ") != strings.Count(line, "--context=prod") {
			t.Errorf("%s: %s", args, line)
		}
	}
	if !strings.Contains(said, "--context=prod") {
		t.Errorf("%s suggests no command:\n%s", args, said)
	}
}
