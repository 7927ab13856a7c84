package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/image"
)

//go:embed verify.yaml
var verifyManifest string

// verification is one run of the checks, in its own namespace.
type verification struct {
	kubectl   kubectl
	cluster   config.Cluster
	namespace string
	volumes   map[string]string // by claim
}

// verify checks on the running node that pods, names and volumes behave as the tests require.
func (p places) verify(ctx context.Context) (err error) {
	c := p.cluster(config.Node)
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return fmt.Errorf("the node is not running. Start it with `up`: %w", err)
	}
	namespace := fmt.Sprintf("verify-%d", time.Now().UnixMilli())
	v := &verification{kubectl{p.kubectl(), c.Kubeconfig(), namespace}, c, namespace, nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.kubectl.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	if err := prove(ctx, v.claims()); err != nil {
		return err
	}
	return p.verifyCSI(ctx)
}

// claims returns the checks of volumes without attachment.
func (v *verification) claims() []claim {
	return []claim{
		{"a StatefulSet starts", v.start},
		{"the volume has the claimed size", v.hasClaimedSize},
		{"a user other than root can write to the volume", v.groupCanWrite},
		{"writes fail when the volume is full", v.failsWhenFull},
		{"a volume of class fixed cannot grow", v.fixedCannotGrow},
		{"a volume of class expandable grows under the running pod", v.grows},
		{"the pod resolves names of Services and pods", v.names},
		{"a retained volume outlives its claim", v.retained},
		{"a deleted volume leaves no files and devices", v.nothingLeft},
	}
}

// claim is a sentence about the cluster and its check.
type claim struct {
	sentence string
	holds    func(context.Context) error
}

// prove runs the checks in order, and stops at the first failure.
func prove(ctx context.Context, claims []claim) error {
	for _, each := range claims {
		if err := step("verified that "+each.sentence, func() error { return each.holds(ctx) }); err != nil {
			return fmt.Errorf("check failed: %s: %w", each.sentence, err)
		}
	}
	return nil
}

// start creates the set and waits until it is ready.
func (v *verification) start(ctx context.Context) error {
	err := v.kubectl.create(ctx, verifyManifest, map[string]any{"Namespace": v.namespace, "Image": image.BusyboxName})
	if err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "rollout", "status", "statefulset/web", "--timeout="+podDeadline.String()); err != nil {
		return fmt.Errorf("%w\nread the logs of kubelet, kube-scheduler and csi-provisioner-local: %s", err, v.cluster.Log("*"))
	}
	v.volumes = map[string]string{}
	for _, claim := range []string{dataClaim, growClaim} {
		if v.volumes[claim], err = v.kubectl.field(ctx, "pvc/"+claim, ".spec.volumeName"); err != nil {
			return err
		}
	}
	return nil
}
