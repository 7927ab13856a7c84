//go:build cluster

package main

import (
	"testing"

	coordinationapi "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

func TestLeaseOfCrashedProcessIsReleased(t *testing.T) {
	config := cluster(t)
	leases, own := coordinationv1.NewForConfigOrDie(config).Leases("kube-public"), identity()
	if err := releaseLease(t.Context(), leases, own); err != nil {
		t.Fatalf("no lease: %v", err)
	}
	holder := holderWith(own, endedProcess(t))
	lease := &coordinationapi.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: coordinationapi.LeaseSpec{HolderIdentity: &holder}}
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}) // the next run replaces it
	if err := releaseLease(t.Context(), leases, own); err != nil {
		t.Fatal(err)
	}
	got, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil || got.Spec.HolderIdentity == nil || *got.Spec.HolderIdentity != "" {
		t.Errorf("lease %+v, error %v", got, err)
	}
}
