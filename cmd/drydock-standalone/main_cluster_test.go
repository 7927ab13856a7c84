//go:build cluster

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func cluster(t *testing.T) *rest.Config {
	t.Helper()
	path := os.Getenv("DRYDOCK_TEST_KUBECONFIG")
	if path == "" {
		t.Fatal("this test needs an API server. Set DRYDOCK_TEST_KUBECONFIG, or run make test-api")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("DRYDOCK_TEST_KUBECONFIG: %v", err)
	}
	return config
}

// TestSecondReplicaLeadsAfterFirstHasEnded: a second replica waits, and leads when the first has finished its work.
func TestSecondReplicaLeadsAfterFirstHasEnded(t *testing.T) {
	config := cluster(t)
	leases := coordinationv1.NewForConfigOrDie(config).Leases("default")
	forget := func() { _ = leases.Delete(context.Background(), leaseName, metav1.DeleteOptions{}) }
	forget()
	t.Cleanup(forget)
	log := slog.New(slog.DiscardHandler)
	replica := func(ctx context.Context, leads chan<- struct{}, end <-chan struct{}) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- elect(ctx, config, "default", log, func(ctx context.Context) error {
				leads <- struct{}{}
				<-ctx.Done()
				<-end
				return nil
			})
		}()
		return ended
	}
	firstLeads, secondLeads := make(chan struct{}, 1), make(chan struct{}, 1)
	finish, atOnce := make(chan struct{}), make(chan struct{})
	close(atOnce)
	first, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	firstEnded := replica(first, firstLeads, finish)
	await(t, "the first to lead", firstLeads)
	secondEnded := replica(t.Context(), secondLeads, atOnce)
	stopFirst()
	select {
	case <-secondLeads:
		t.Error("the second leads while the first still works")
	case <-time.After(2 * retryPeriod): // enough for the second to try
	}
	close(finish)
	if err := await(t, "the first to end", firstEnded); err != nil {
		t.Error(err)
	}
	await(t, "the second to lead", secondLeads)

	// A process that loses the lease ends with an error, so that its supervisor restarts it.
	if err := takeLease(t.Context(), leases); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "the second to lose the lease", secondEnded); !errors.Is(err, errLeaseLost) {
		t.Errorf("got %v, want %v", err, errLeaseLost)
	}
}

func takeLease(ctx context.Context, leases coordinationv1.LeaseInterface) error {
	patch := []byte(`{"spec":{"holderIdentity":"a thief","leaseDurationSeconds":3600}}`)
	_, err := leases.Patch(ctx, leaseName, "application/merge-patch+json", patch, metav1.PatchOptions{})
	return err
}

// TestWaitingReplicaEndsWithoutError: the context of a replica ends while another replica leads. That is not an error.
func TestWaitingReplicaEndsWithoutError(t *testing.T) {
	config := cluster(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := elect(ctx, config, "default", slog.New(slog.DiscardHandler), func(context.Context) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
