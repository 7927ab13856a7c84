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
			err = errors.Join(err, v.kubectl.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	if err := prove(ctx, v.claims()); err != nil {
		return err
	}
	return p.verifyCSI(ctx)
}

// claims are about volumes that need no attaching.
func (v *verification) claims() []claim {
	return []claim{
		{"a StatefulSet starts", v.start},
		{"the volume is as large as claimed", v.sizeIsReal},
		{"another user than root can write to it", v.groupCanWrite},
		{"it is full when it is full", v.fullIsFull},
		{"it cannot grow", v.fixedStays},
		{"a volume of the other class grows under the running pod", v.grows},
		{"the pod finds names of Services and pods", v.names},
		{"a retained volume outlives its claim", v.retained},
		{"a deleted volume leaves nothing behind", v.nothingLeft},
	}
}

// claim is a sentence about the cluster and its check.
type claim struct {
	claim string
	holds func(context.Context) error
}

// prove checks one claim after the other, and stops at the first that does not hold.
func prove(ctx context.Context, claims []claim) error {
	for _, each := range claims {
		if err := step("verified that "+each.claim, func() error { return each.holds(ctx) }); err != nil {
			return fmt.Errorf("it does not hold that %s: %w", each.claim, err)
		}
	}
	return nil
}

// start creates the set and waits for it.
func (v *verification) start(ctx context.Context) error {
	err := v.kubectl.create(ctx, verifyManifest, map[string]any{"Namespace": v.namespace, "Image": image.BusyboxName})
	if err != nil {
		return err
	}
	if _, err := v.kubectl.run(ctx, "rollout", "status", "statefulset/web", "--timeout="+podDeadline.String()); err != nil {
		return fmt.Errorf("%w\nsee the logs of kubelet, kube-scheduler and csi-provisioner-local: %s", err, v.cluster.Log("*"))
	}
	v.volumes = map[string]string{}
	for _, claim := range []string{dataClaim, growClaim} {
		if v.volumes[claim], err = v.kubectl.field(ctx, "pvc/"+claim, ".spec.volumeName"); err != nil {
			return err
		}
	}
	return nil
}
