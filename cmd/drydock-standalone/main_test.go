package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/eventsource/engine"
	"drydock.dev/shared/api"
	"drydock.dev/shared/telemetry/export"
)

func TestHelpIsOneTable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var o options
	for _, want := range []string{"DRYDOCK_RETENTION", "KUBECONFIG", "127.0.0.1:9091"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table lacks %s:\n%s", want, stdout.String())
		}
	}
	o.flags().VisitAll(func(f *flag.Flag) {
		if !strings.Contains(stdout.String(), "--"+f.Name+" ") {
			t.Errorf("the table lacks --%s", f.Name)
		}
	})
}

func TestOptions(t *testing.T) {
	t.Setenv("DRYDOCK_TICK", "7s")
	t.Setenv("DRYDOCK_IN_FLIGHT", "3")
	o, err := readOptions([]string{"--tick", "9s", "--namespace", "a,b", "--no-source"}, &bytes.Buffer{}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Tick != 9*time.Second || o.InFlight != 3 || len(o.Namespaces) != 2 || !o.NoSource || !o.LeaderElect || o.Listen != "127.0.0.1:9090" {
		t.Errorf("%+v", o)
	}
	for _, args := range [][]string{{"--no-such"}, {"extra"}, {"--tick", "soon"}} {
		if _, err := readOptions(args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	t.Setenv("DRYDOCK_TICK", "soon")
	if _, err := readOptions(nil, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
		t.Error("a setting that cannot be read is no error")
	}
}

// TestAssemble: every Trigger that is shipped has its function.
func TestAssemble(t *testing.T) {
	measure, err := export.Setup("test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = assemble(options{Settings: api.Settings{Image: "registry.example/drydock:1", AllowTags: true}}, &rest.Config{}, engine.NewStream(nil), measure, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Error(err)
	}
}

func cluster(t *testing.T) *rest.Config {
	t.Helper()
	path := os.Getenv("DRYDOCK_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("needs an API server: set DRYDOCK_TEST_KUBECONFIG")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("DRYDOCK_TEST_KUBECONFIG: %v", err)
	}
	return config
}

// TestElection: a second replica waits, and takes over when the first has finished its work.
func TestElection(t *testing.T) {
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
	case <-time.After(2 * retryPeriod): // long enough for the second to try
	}
	close(finish)
	if err := await(t, "the first to end", firstEnded); err != nil {
		t.Error(err)
	}
	await(t, "the second to lead", secondLeads)

	// Whoever loses the lease ends with an error, so that its supervisor starts it again.
	if err := steal(t.Context(), leases); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "the second to lose the lease", secondEnded); !errors.Is(err, errLeaseLost) {
		t.Errorf("got %v, want %v", err, errLeaseLost)
	}
}

func steal(ctx context.Context, leases coordinationv1.LeaseInterface) error {
	patch := []byte(`{"spec":{"holderIdentity":"a thief","leaseDurationSeconds":3600}}`)
	_, err := leases.Patch(ctx, leaseName, "application/merge-patch+json", patch, metav1.PatchOptions{})
	return err
}

// TestWaitingReplicaEndsInPeace: told to end while another leads, a replica did nothing wrong.
func TestWaitingReplicaEndsInPeace(t *testing.T) {
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

// TestTheGatewayTakesAURLWithASlashAtItsEnd, as users write it into a proxy's configuration.
func TestTheGatewayTakesAURLWithASlashAtItsEnd(t *testing.T) {
	measure, err := export.Setup("drydock-standalone", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(measure.Shutdown)
	var log bytes.Buffer
	stop, err := listenGateway(options{Gateway: "127.0.0.1:0"}, &rest.Config{}, measure, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var line struct{ URL string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.URL == "" {
		t.Fatalf("%s: %v", &log, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, line.URL+"//api/themes", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request) // which follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}
