package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"text/template"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
	"drydock.dev/test/cluster/image"
)

//go:embed verify.yaml
var verifyManifest string

// verification is one run of the checks, in a namespace of its own.
type verification struct {
	kubectl   kubectl
	cluster   config.Cluster
	namespace string
	volumes   map[string]string // by claim
}

// verify proves on the running node that pods, names and volumes do what tests rely on.
func (p places) verify(ctx context.Context) (err error) {
	c := p.cluster(config.Node)
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return fmt.Errorf("the node does not run; start it with `up`: %w", err)
	}
	namespace := fmt.Sprintf("verify-%d", time.Now().UnixMilli())
	v := &verification{kubectl{p.kubectl(), c.Kubeconfig(), namespace}, c, namespace, nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	for _, check := range []struct {
		claim string
		holds func(context.Context) error
	}{
		{"a StatefulSet starts", v.start},
		{"the volume is as large as claimed", v.sizeIsReal},
		{"another user than root can write to it", v.groupCanWrite},
		{"it is full when it is full", v.fullIsFull},
		{"it cannot grow", v.fixedStays},
		{"a volume of the other class grows under the running pod", v.grows},
		{"the pod finds names of Services and pods", v.names},
		{"a retained volume outlives its claim", v.retained},
		{"a deleted volume leaves nothing behind", v.nothingLeft},
	} {
		if err := step("verified that "+check.claim, func() error { return check.holds(ctx) }); err != nil {
			return fmt.Errorf("it does not hold that %s: %w", check.claim, err)
		}
	}
	return nil
}

// start creates the set and waits for it.
func (v *verification) start(ctx context.Context) error {
	var manifest bytes.Buffer
	parsed, err := template.New("verify").Parse(verifyManifest)
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	if err := parsed.Execute(&manifest, map[string]string{"Namespace": v.namespace, "Image": image.BusyboxName}); err != nil {
		return fmt.Errorf("rendering the manifest: %w", err)
	}
	if _, err := v.kubectl.runWithInput(ctx, manifest.Bytes(), "create", "-f", "-"); err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "rollout", "status", "statefulset/web", "--timeout="+podDeadline.String()); err != nil {
		return fmt.Errorf("%w\nsee the logs of kubelet, kube-scheduler and provisioner: %s", err, v.cluster.Log("*"))
	}
	v.volumes = map[string]string{}
	for _, claim := range []string{dataClaim, growClaim} {
		if v.volumes[claim], err = v.kubectl.field(ctx, "pvc/"+claim, ".spec.volumeName"); err != nil {
			return err
		}
	}
	return nil
}

// removeNamespace cleans up after a failure.
func (v *verification) removeNamespace(ctx context.Context) error {
	_, err := v.kubectl.run(ctx, "delete", "namespace", v.namespace, "--ignore-not-found", "--wait=false")
	return err
}

// kubectl runs kubectl in one namespace of one cluster.
type kubectl struct{ binary, kubeconfig, namespace string }

func (k kubectl) run(ctx context.Context, args ...string) (string, error) {
	return k.runWithInput(ctx, nil, args...)
}

func (k kubectl) runWithInput(ctx context.Context, input []byte, args ...string) (string, error) {
	return host.RunWithInput(ctx, input, k.binary, append([]string{"--kubeconfig", k.kubeconfig, "--namespace", k.namespace}, args...)...)
}

// field reads a field of an object by its JSON path.
func (k kubectl) field(ctx context.Context, object, path string) (string, error) {
	return k.run(ctx, "get", object, "--output", "jsonpath={"+path+"}")
}

// waitField waits until a field of an object has a value.
func (k kubectl) waitField(ctx context.Context, object, path, value string) error {
	_, err := k.run(ctx, "wait", object, fmt.Sprintf("--for=jsonpath={%s}=%s", path, value), "--timeout=60s")
	return err
}

// inPod runs a shell command in the set's pod.
func (k kubectl) inPod(ctx context.Context, command string) (string, error) {
	return k.run(ctx, "exec", "web-0", "--", "sh", "-c", command)
}
