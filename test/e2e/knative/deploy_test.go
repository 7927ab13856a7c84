//go:build cluster

package knative

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// TestFunctionIsDeployedDuringOperation gives restore another image while the set stops. It continues the operation.
func TestFunctionIsDeployedDuringOperation(t *testing.T) {
	k := setUp(t)
	next := k.build(t, "drydock-next", "./cmd/drydock")
	t.Cleanup(func() { k.make(t, "deploy", "FUNCTION=restore", "IMAGE="+image()) })
	k.CreateSet(stage.WithSlowStop(15, stage.Workload("64Mi"))) // enough for a deployment on a slow machine
	before := k.Data(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	k.AwaitPhase(t, api.Moving)
	k.make(t, "deploy", "FUNCTION=restore", "IMAGE="+next)
	revision := strings.TrimSpace(k.Kubectl(t, "", "-n", drydock, "get", "service.serving.knative.dev", "restore", "-o",
		"jsonpath={.status.latestReadyRevisionName}"))
	k.ExpectResized(t, before)
	if len(k.functions.events(revision, set)) == 0 {
		t.Errorf("the new revision %s had nothing to do: it came too late for this test", revision)
	}
}

// build compiles a program of the module with other flags than make images, so that it is another image.
func (k *knative) build(t *testing.T, name, folder string) string {
	t.Helper()
	root := kit.Root(t)
	binary := filepath.Join(t.TempDir(), name)
	run := func(command *exec.Cmd) {
		command.Dir, command.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, output)
		}
	}
	run(exec.CommandContext(context.Background(), "go", "build", "-o", binary, folder))
	run(exec.CommandContext(context.Background(), "go", "run", "-C", "test/cluster", ".", "image", "--binary="+binary))
	return "dev.local/" + name + ":dev"
}

// TestDeployTouchesOneFunction deploys, rolls back and deletes one function, and checks everything else.
func TestDeployTouchesOneFunction(t *testing.T) {
	k := setUp(t)
	t.Cleanup(func() { k.make(t, "deploy", "FUNCTION=pause-owner", "IMAGE="+image()) })
	others := k.deployed(t, "pause-owner")
	first := k.imageOf(t, "pause-owner")
	next := k.build(t, "drydock-next", "./cmd/drydock")
	for _, step := range [][]string{{"deploy", "IMAGE=" + next}, {"deploy", "IMAGE=" + first}, {"undeploy"}} {
		k.make(t, append(step, "FUNCTION=pause-owner")...)
		if now := k.deployed(t, "pause-owner"); now != others {
			t.Errorf("after %v the others are\n%s\nbefore\n%s", step, now, others)
		}
	}
	if left := k.Kubectl(t, "", "-n", drydock, "get", "ksvc,trigger", "-l", "app.kubernetes.io/component=pause-owner", "-o",
		"name"); left != "" {
		t.Errorf("undeployed, but still there: %s", left)
	}
}

func (k *knative) imageOf(t *testing.T, function string) string {
	t.Helper()
	return k.Kubectl(t, "", "-n", drydock, "get", "ksvc", function, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

// deployed returns Knative's objects of all functions but one. The generation counts changes of a spec.
func (k *knative) deployed(t *testing.T, but string) string {
	t.Helper()
	const columns = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation}\n{end}"
	return k.Kubectl(t, "", "-n", drydock, "get", "ksvc,trigger", "-l", "app.kubernetes.io/component!="+but, "-o", columns)
}

// versions returns the versions of all objects that an operation writes to.
func (k *knative) versions(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	set := k.Set("web")
	fmt.Fprintf(&b, "set %s;", set.ResourceVersion)
	claims, err := k.Kube.CoreV1().PersistentVolumeClaims(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		fmt.Fprintf(&b, " claim %s %s;", c.Name, c.ResourceVersion)
	}
	for _, v := range k.Volumes() {
		fmt.Fprintf(&b, " volume %s %s;", v.Name, v.ResourceVersion)
	}
	jobs, err := k.Kube.BatchV1().Jobs(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, " %d jobs", len(jobs.Items))
	return b.String()
}

// TestManifestsPassWebhooks applies everything in a dry run: the API server, Knative's webhooks and pod security check
// it. The Kafka overlay is checked as far as Knative knows it without Kafka.
func TestManifestsPassWebhooks(t *testing.T) {
	k := setUp(t)
	root := kit.Root(t)
	for _, folder := range []string{"config", "config/overlays/cluster", "config/overlays/namespace", "deploy"} {
		manifests := k.Kubectl(t, "", "kustomize", filepath.Join(root, folder))
		if folder == "deploy" {
			manifests = strings.ReplaceAll(manifests, "image: drydock\n", "image: "+stage.Image+"\n")
		}
		if _, problem := k.TryKubectl(t, manifests, "apply", "--server-side", "--force-conflicts", "--dry-run=server",
			"--field-manager=test", "-f", "-"); problem != "" {
			t.Errorf("%s: %s", folder, problem)
		}
	}
}

// TestBrokerAuthenticates turns on Knative's authentication. An anonymous event is rejected. A resize works, because
// the tick, the source, sift and the functions' replies authenticate. The source starts late, so sift finds the request
// by the tick.
func TestBrokerAuthenticates(t *testing.T) {
	k := setUp(t)
	k.authenticate(t, "enabled", "config/overlays/oidc")
	t.Cleanup(func() { k.authenticate(t, "disabled", "config") })
	k.awaitRest(t) // functions that start now read the new settings
	k.CreateSet(stage.Workload("64Mi"))
	k.Eventually("an anonymous event is rejected", func() string {
		err := k.post(events.NewStep("stranger", events.Retry, k.ref()))
		if !apierrors.IsUnauthorized(err) {
			return fmt.Sprintf("it is not: %v", err)
		}
		return ""
	})
	before := k.Data(t)
	k.removeSource(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	k.AwaitPhase(t, api.Planned)
	k.make(t, "configure", "CONFIG=config/overlays/oidc")
	k.ExpectResized(t, before)
}

// authenticate switches Knative's authentication as the overlay tells the administrator.
func (k *knative) authenticate(t *testing.T, flag, config string) {
	t.Helper()
	k.make(t, "undeploy")
	k.Kubectl(t, "", "-n", drydock, "delete", "broker,eventpolicy", "--all")
	k.Kubectl(t, "", "-n", "knative-eventing", "patch", "configmap", "config-features", "--type=merge", "-p",
		`{"data":{"authentication-oidc":"`+flag+`"}}`)
	k.install(t, config)
	if n := len(strings.Fields(k.Kubectl(t, "", "-n", drydock, "get", "inmemorychannel", "-o",
		"jsonpath={.items[*].spec.subscribers[*].uid}"))); n != len(listeners())-1 {
		t.Errorf("%d subscriptions, want one for each function that takes events but the one for dead letters", n)
	}
}
