package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the lease, the defaults of client-go.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errLeaseLost = errors.New("the lease was lost, so another replica may work now. Restart this process to wait for the lease")

// elect runs lead while this process holds the lease. It releases the lease only after lead has ended, so that no two
// replicas work at once. A lost lease ends the process. client-go could also release a lease (ReleaseOnCancel), but it releases a lost one
// before it stops lead.
func elect(ctx context.Context, config *rest.Config, namespace string, log *slog.Logger, lead func(context.Context) error) error {
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for leases: %w", err)
	}
	own := identity()
	if err := releaseLease(ctx, client.Leases(namespace), own); err != nil {
		log.Warn("cannot release the lease of an ended process, waiting until it expires", "error", err.Error())
	}
	// The election continues while lead finishes its work.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: own},
		},
		Name:          leaseName,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				if lost, err := leadWhileHeld(ctx, held, lead); !lost {
					result <- err
					release()
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(id string) { log.Info("lease", "holder", id) },
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	waiting := context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			release()
		}
	})
	defer waiting()
	log.Info("waiting for the lease", "namespace", namespace, "name", leaseName)
	elector.Run(electing)
	if err = electionResult(electing, result); errors.Is(err, errLeaseLost) { // lead may still be ending
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	if err := releaseLease(ending, client.Leases(namespace), own); err != nil {
		log.Warn("cannot release the lease, the next process waits until it expires", "error", err.Error())
	}
	return err
}

// leadWhileHeld runs lead until it ends, ctx ends, or the lease is lost, which ends held. A loss decides the result of the election, and
// not how lead ends after it.
func leadWhileHeld(ctx, held context.Context, lead func(context.Context) error) (lost bool, err error) {
	leading, stop := context.WithCancel(held)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err = lead(leading)
	return held.Err() != nil, err
}

// electionResult returns why the election ended: the result of lead, a lost lease, or nil if another replica led.
func electionResult(electing context.Context, result <-chan error) error {
	released := electing.Err() != nil // read first, because the result of lead precedes the release
	select {
	case err := <-result:
		return err
	default:
	}
	if !released {
		return errLeaseLost
	}
	return nil // the context ended while another replica led
}

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

// identity returns the name of this process as the holder of the lease. It begins with the name of the pod or of the host.
//
// In a pod, every process of the pod has the same identity. So a container that crashed and restarts keeps the lease.
// This is safe, because the kubelet starts a container only after the previous one has ended. Outside of a pod, each
// process has another identity, see releaseLease.
func identity() string {
	if name, uid := os.Getenv("POD_NAME"), os.Getenv("POD_UID"); name != "" && uid != "" {
		return name + "_" + uid
	}
	host, _ := os.Hostname() // the identity is unique without it
	return fmt.Sprintf("%s_%s_%d_%s", host, processSpace(), os.Getpid(), uuid.NewString())
}

// processSpace returns an id of this boot of the kernel and of the pid namespace. A process id is unique only within
// both. It returns empty on systems that do not report them, such as macOS.
func processSpace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "-" + strings.Trim(namespace, "pid:[]")
}

// isEndedProcess reports whether the holder of a lease was a process in the process space of own, and has certainly ended.
func isEndedProcess(holder, own string) bool {
	theirs, ours := strings.Split(holder, "_"), strings.Split(own, "_")
	if len(theirs) != 4 || len(ours) != 4 || theirs[0] != ours[0] || theirs[1] != ours[1] || ours[1] == "" {
		return false
	}
	pid, err := strconv.Atoi(theirs[2])
	return err == nil && pid > 1 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
