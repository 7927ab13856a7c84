package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationapi "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// leaseServer is an API server with one lease. It accepts the release of the lease in any case.
type leaseServer struct {
	lease     coordinationapi.Lease
	refuses   atomic.Bool // renewals
	hangs     atomic.Bool
	onRelease func()
}

func (s *leaseServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, object any) (*http.Response, error) {
		body, err := json.Marshal(object)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(bytes.NewReader(body))}, err
	}
	if s.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if r.Method == http.MethodGet {
		return answer(http.StatusOK, s.lease)
	}
	var next coordinationapi.Lease
	if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
		return nil, err
	}
	switch released := next.Spec.HolderIdentity == nil || *next.Spec.HolderIdentity == ""; {
	case released:
		s.onRelease()
	case s.refuses.Load():
		return answer(http.StatusInternalServerError, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError})
	}
	s.lease = next
	return answer(http.StatusOK, next)
}

// TestLeaseIsReleasedOnlyAfterLeadHasEnded: another replica works as soon as the lease is released or has expired.
func TestLeaseIsReleasedOnlyAfterLeadHasEnded(t *testing.T) {
	for name, row := range map[string]struct {
		happens  func(end func(), server *leaseServer)
		released bool
		want     error
	}{
		"the process ends":               {func(end func(), _ *leaseServer) { end() }, true, nil},
		"the API server refuses renewal": {func(_ func(), s *leaseServer) { s.refuses.Store(true) }, false, errLeaseLost},
		"the API server does not answer": {func(_ func(), s *leaseServer) { s.hangs.Store(true) }, false, errLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var works atomic.Bool
				released := false
				server := &leaseServer{onRelease: func() {
					if released = true; works.Load() {
						t.Error("the lease is released while the work continues")
					}
				}}
				server.lease.APIVersion, server.lease.Kind, server.lease.Name = "coordination.k8s.io/v1", "Lease", leaseName
				config := &rest.Config{Host: "http://api", Transport: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
				ctx, end := context.WithTimeout(t.Context(), time.Hour)
				defer end()
				lead := func(ctx context.Context) error {
					works.Store(true)
					defer works.Store(false)
					began := time.Now()
					row.happens(end, server)
					<-ctx.Done()
					if after := time.Since(began); after >= leaseDuration {
						t.Errorf("the work is stopped after %s, when the lease has expired", after)
					}
					time.Sleep(time.Second) // the work that has begun ends
					return nil
				}
				if err := elect(ctx, config, "drydock", slog.New(slog.DiscardHandler), lead); !errors.Is(err, row.want) || released != row.released {
					t.Errorf("error %v, want %v; the lease is released: %t, want %t", err, row.want, released, row.released)
				}
				time.Sleep(time.Minute) // lead ends
			})
		})
	}
}

// TestLostLeaseIsNoResult: a lost lease ends lead without an error. The process must still end with one.
func TestLostLeaseIsNoResult(t *testing.T) {
	failed := errors.New("cannot listen")
	untilStopped := func(ctx context.Context) error { <-ctx.Done(); return nil }
	over, end := context.WithCancel(t.Context())
	end()
	for name, row := range map[string]struct {
		ctx, held context.Context
		lead      func(context.Context) error
		lost      bool
		err       error
	}{
		"the lease is lost":  {t.Context(), over, untilStopped, true, nil},
		"the process ends":   {over, t.Context(), untilStopped, false, nil},
		"lead ends by error": {t.Context(), t.Context(), func(context.Context) error { return failed }, false, failed},
	} {
		t.Run(name, func(t *testing.T) {
			if lost, err := leadWhileHeld(row.ctx, row.held, row.lead); lost != row.lost || !errors.Is(err, row.err) {
				t.Errorf("lost %t, %v; want lost %t, %v", lost, err, row.lost, row.err)
			}
		})
	}
}

// TestElectionResult: the result of lead precedes the release, so a result that comes late belongs to a lost lease.
func TestElectionResult(t *testing.T) {
	failed := errors.New("cannot listen")
	over, end := context.WithCancel(t.Context())
	end()
	for name, row := range map[string]struct {
		electing context.Context
		result   []error
		want     error
	}{
		"lead has ended":         {over, []error{nil}, nil},
		"lead has failed":        {over, []error{failed}, failed},
		"lost while lead works":  {t.Context(), nil, errLeaseLost},
		"lost as lead has ended": {t.Context(), []error{failed}, failed},
		"another replica led":    {over, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result := make(chan error, 1)
			for _, err := range row.result {
				result <- err
			}
			if got := electionResult(row.electing, result); !errors.Is(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// holderWith returns the identity of another process of this machine.
func holderWith(own string, pid int) string {
	parts := strings.Split(own, "_")
	return fmt.Sprintf("%s_%s_%d_another", parts[0], parts[1], pid)
}

func endedProcess(t *testing.T) int {
	t.Helper()
	command := exec.CommandContext(t.Context(), "true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid
}

func TestOnlyLeaseOfEndedLocalProcessIsReleased(t *testing.T) {
	own, ended := identity(), endedProcess(t)
	knowsSpace := processSpace() != "" // elsewhere, no lease is released
	if !knowsSpace && runtime.GOOS == "linux" {
		t.Fatal("the process space is unknown on Linux")
	}
	for name, row := range map[string]struct {
		holder string
		want   bool
	}{
		"a process that has ended":           {holderWith(own, ended), true},
		"a process that runs":                {holderWith(own, os.Getppid()), false},
		"a process of another host":          {"x" + holderWith(own, ended), false},
		"a process of another pid namespace": {strings.Replace(holderWith(own, ended), processSpace(), processSpace()+"1", 1), false},
		"a pod":                              {"drydock-standalone-1_uid", false},
		"not a process id":                   {strings.Replace(holderWith(own, ended), fmt.Sprintf("_%d_", ended), "_-1_", 1), false},
		"no holder":                          {"", false},
	} {
		if got := isEndedProcess(row.holder, own); got != (row.want && knowsSpace) {
			t.Errorf("%s (%s): ended %t", name, row.holder, got)
		}
	}
	t.Setenv("POD_NAME", "drydock-standalone-1")
	t.Setenv("POD_UID", "uid")
	if first, second := identity(), identity(); first != second || first != "drydock-standalone-1_uid" {
		t.Errorf("a container that restarts in its pod has another identity: %s, %s", first, second)
	}
}
