package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drydock.dev/test/cluster/knative"
)

// fingerprintKey is an annotation on the namespace of Knative Serving. It holds the fingerprint of the manifests that were completely
// applied. The same manifests are not applied again, because Knative itself fills in some objects.
const fingerprintKey = "cluster.drydock.dev/knative"

// Deadlines of an installation: several times the duration on a machine with two cores.
const (
	applyDeadline   = time.Minute
	knativeDeadline = 5 * time.Minute
)

// installation is Knative on the local node.
type installation struct {
	kubectl   kubectl
	manifests knative.Manifests
}

// ensure applies the manifests if they have changed, and waits until Knative works.
func (i installation) ensure(ctx context.Context) error {
	applied, err := i.kubectl.run(ctx, "get", "namespace", knative.ServingNamespace, "--ignore-not-found",
		"--output", "jsonpath={.metadata.annotations."+strings.ReplaceAll(fingerprintKey, ".", `\.`)+"}")
	if err != nil {
		return err
	}
	same := applied == i.manifests.Fingerprint()
	if !same {
		if err := i.apply(ctx); err != nil {
			return err
		}
	}
	if err := step("waiting for Knative's pods", func() error { return i.waitForDeployments(ctx) }); err != nil {
		return err
	}
	if err := step("waiting for Knative's webhooks", func() error { return i.waitForWebhooks(ctx) }); err != nil {
		return err
	}
	if same {
		return nil
	}
	_, err = i.kubectl.run(ctx, "annotate", "namespace", knative.ServingNamespace, "--overwrite", fingerprintKey+"="+i.manifests.Fingerprint())
	return err
}

// apply creates the kinds, waits until they are served, and creates the other objects. It retries the latter: while an earlier Knative
// is replaced, its webhook may be unavailable and reject everything.
func (i installation) apply(ctx context.Context) error {
	if err := step("applying Knative's kinds", func() error {
		if err := i.applyServerSide(ctx, i.manifests.Definitions); err != nil {
			return err
		}
		_, err := i.kubectl.runWithInput(ctx, i.manifests.Definitions, "wait", "--for=condition=Established",
			"--timeout="+applyDeadline.String(), "-f", "-")
		return err
	}); err != nil {
		return fmt.Errorf("applying Knative's kinds: %w", err)
	}
	err := step("applying Knative's objects", func() error {
		return retry(ctx, applyDeadline, func() error { return i.applyServerSide(ctx, i.manifests.Rest) })
	})
	if err != nil {
		return fmt.Errorf("applying Knative's objects: %w", err)
	}
	return nil
}

func (i installation) applyServerSide(ctx context.Context, manifests []byte) error {
	_, err := i.kubectl.runWithInput(ctx, manifests, "apply", "--server-side", "--force-conflicts",
		"--field-manager=drydock-cluster", "-f", "-")
	return err
}

// waitForDeployments waits until all pods of the newest generation are ready.
func (i installation) waitForDeployments(ctx context.Context) error {
	return retry(ctx, knativeDeadline, func() error {
		found, err := i.kubectl.deployments(ctx)
		if err != nil {
			return err
		}
		if waiting := knative.NotReady(i.manifests.Deployments, found); len(waiting) > 0 {
			return fmt.Errorf("not ready: %s. Run: %s --kubeconfig=%s get pods --all-namespaces",
				strings.Join(waiting, ", "), i.kubectl.binary, i.kubectl.kubeconfig)
		}
		return nil
	})
}

// waitForWebhooks waits until Knative's three webhooks answer. It creates objects of their kinds with a server-side dry run.
func (i installation) waitForWebhooks(ctx context.Context) error {
	return retry(ctx, applyDeadline, func() error {
		output, err := i.kubectl.runWithInput(ctx, []byte(knative.Probe), "create", "--dry-run=server", "--output=json", "-f", "-")
		if err != nil {
			return err
		}
		return knative.Defaulted(output)
	})
}

// retry repeats the function until it succeeds or the time is over, and returns the last error.
func retry(ctx context.Context, within time.Duration, do func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no success after %s: %w", within, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
