package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const leaseName = "drydock-standalone"

// releaseLease empties the lease of this process or of a crashed one, so that the next process need not wait until the lease
// expires. It writes nothing if another process has taken the lease in between.
func releaseLease(ctx context.Context, leases coordinationv1.LeaseInterface, own string) error {
	lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading lease %s: %w", leaseName, err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != own && !isEndedProcess(*lease.Spec.HolderIdentity, own):
		return nil
	}
	lease.Spec.HolderIdentity = new(string)
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("emptying lease %s: %w", leaseName, err)
	}
	return nil
}
