package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drydock.dev/test/cluster/knative"
)

// fingerprintKey is an annotation on the namespace of Knative Serving: the manifests that were applied completely. An
// installation of the same ones is left as it is, since Knative fills in some of its objects itself.
const fingerprintKey = "cluster.drydock.dev/knative"

// Deadlines of an installation, several times what a machine with two cores needs.
const (
	applyDeadline   = time.Minute
	knativeDeadline = 5 * time.Minute
)

// installation is Knative on the local node.
type installation struct {
	kubectl   kubectl
	manifests knative.Manifests
}

// ensure applies what is not applied yet, and waits until Knative works.
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

// apply creates the kinds, waits until they are served, and creates the rest. Where an earlier Knative is being
// replaced, its webhook may be away for a moment and refuse everything: so the rest is tried again.
func (i installation) apply(ctx context.Context) error {
	if err := step("applying Knative's kinds", func() error {
		if err := i.applyServerSide(ctx, i.manifests.Definitions); err != nil {
			return err
		}
		_, err := i.kubectl.runWithInput(ctx, i.manifests.Definitions, "wait", "--for=condition=Established", "--timeout="+applyDeadline.String(), "-f", "-")
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
	_, err := i.kubectl.runWithInput(
		ctx,
		manifests,
		"apply",
		"--server-side",
		"--force-conflicts",
		"--field-manager=drydock-cluster",
		"-f",
		"-",
	)
	return err
}

// waitForDeployments expects all pods of the newest generation.
func (i installation) waitForDeployments(ctx context.Context) error {
	return retry(ctx, knativeDeadline, func() error {
		found, err := i.kubectl.deployments(ctx)
		if err != nil {
			return err
		}
		if waiting := knative.NotReady(i.manifests.Deployments, found); len(waiting) > 0 {
			return fmt.Errorf(
				"not ready: %s; look with: %s --kubeconfig=%s get pods --all-namespaces",
				strings.Join(waiting, ", "),
				i.kubectl.binary,
				i.kubectl.kubeconfig,
			)
		}
		return nil
	})
}

// waitForWebhooks has objects checked without creating them. They are of the kinds that Knative's three webhooks
// default and validate.
func (i installation) waitForWebhooks(ctx context.Context) error {
	return retry(ctx, applyDeadline, func() error {
		output, err := i.kubectl.runWithInput(ctx, []byte(knative.Probe), "create", "--dry-run=server", "--output=json", "-f", "-")
		if err != nil {
			return err
		}
		return knative.Defaulted(output)
	})
}

// retry repeats what fails until the deadline, and returns the last error.
func retry(ctx context.Context, within time.Duration, do func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still after %s: %w", within, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
