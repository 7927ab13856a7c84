package command

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// refreshPeriod is the default of session.refresh.
const refreshPeriod = 5 * time.Second

// apiPatience is how long a command that follows a set waits for an API server that does not answer, and for a set that is gone.
const apiPatience = 2 * time.Minute

var setResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}

// follow calls look with the state of the set: at once, after each change of the set, and in each s.refresh. It ends when look reports that
// it is done or returns an error. A timeout of 0 means no limit. A resize may delete the set and create it again, so a set that was seen
// may be gone for apiPatience.
func (s *session) follow(ctx context.Context, timeout time.Duration, look func(*world.Observed) (done bool, err error)) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w (%s)", errTimeout, timeout))
		defer cancel()
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed := s.changes(watching)
	refresh := time.NewTicker(s.refresh)
	defer refresh.Stop()
	var seen time.Time // the last look
	for {
		observed, err := s.observe(ctx)
		switch {
		case ctx.Err() != nil:
			return s.interrupted(ctx)
		case err != nil && (!passesByItself(err) || time.Since(seen) > apiPatience):
			return err
		case err == nil && observed.Set == nil && time.Since(seen) > apiPatience:
			return fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
		case err == nil && observed.Set != nil:
			seen = time.Now()
			if done, err := look(observed); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return s.interrupted(ctx)
		case <-changed:
		case <-refresh.C:
		}
	}
}

// observe reads the set and the objects around it. If the user may not read all of those, it reads only the set, and s.unread says why.
func (s *session) observe(ctx context.Context) (*world.Observed, error) {
	ref := events.Ref{Namespace: s.namespace, Name: s.name}
	observed, err := s.client.Observe(ctx, ref)
	if !apierrors.IsForbidden(err) {
		s.unread = ""
		return observed, err
	}
	s.unread = text.Printable(err.Error())
	return s.client.ObserveIf(ctx, ref, func(*world.Observed) bool { return false })
}

// interrupted returns the error of a wait that the user or a timeout has ended.
func (s *session) interrupted(ctx context.Context) error {
	return fmt.Errorf("%w. The operation continues. Follow it with: kubectl drydock status -n %s sts/%s --watch", context.Cause(ctx),
		s.namespace, s.name)
}

// passesByItself reports whether another try may succeed: the API server is restarted or overloaded, or the network failed.
func passesByItself(err error) bool {
	return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err)
}

// changes reports changes of the set until the context ends. A change that nobody has read yet stands for all that follow it. Without the
// right to watch the set it reports none.
func (s *session) changes(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	sets := s.objects.Resource(setResource).Namespace(s.namespace)
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = byName
			return sets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = byName
			return sets.Watch(ctx, options)
		},
	}
	note := func(watch.Event) (bool, error) {
		select {
		case changed <- struct{}{}:
		default:
		}
		return false, nil
	}
	go func() { _, _ = watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, note) }() // ends with the context
	return changed
}

// hasEnded reports whether the requested resize or rollback of the set has ended, and returns an error if it did not succeed. It is called
// without the claims of the set if the user may not read them.
func hasEnded(in *world.Observed, complete bool) (ended bool, err error) {
	record, err := in.Record()
	if err != nil {
		return false, err
	}
	begins, err := willBegin(in, record, complete)
	switch {
	case err != nil:
		return true, err
	case record.Active() || begins:
		return false, nil
	case record == nil || record.Phase == api.Succeeded:
		return true, nil
	}
	return true, fmt.Errorf("StatefulSet %s/%s: operation %s is %s: %s", in.Set.Namespace, in.Set.Name, record.Operation, record.Phase,
		causeOf(record.Head()))
}

// willBegin reports whether Drydock will begin a resize or a rollback, or refuse it, because of the annotations of the set. A manifest can
// keep its request for good: a request that the set already matches begins nothing.
func willBegin(in *world.Observed, record *api.Resize, complete bool) (bool, error) {
	request, requested := api.RequestOf(in.Set)
	if resize.RequestedRollback(in.Set, record) != "" {
		return statefulset.Managed(in.Set), nil
	}
	changes, reason, err := resize.NeededChanges(resize.Input{Observed: in})
	switch {
	case !requested && changes == nil || reason == api.NotManaged || reason == api.SetGone:
		return false, nil
	case err != nil:
		return false, err
	case requested && world.Answered(record, request), resize.IsRefusalOf(record, in.Set):
		return operation.Of(in.Set).ResizeRetried(in.Set), nil
	case record != nil && record.Request == request:
		return complete && changes != nil && len(changes.Problems) == 0, nil // it succeeded, and applies to claims that were added later
	}
	return !complete || reason != api.UpToDate, nil
}

// resizeOutcome is the outcome of the resize that one command has requested. Another operation on the set says nothing about it.
type resizeOutcome struct {
	request string
	former  string // the operation before the request, or ""
}

// hasEnded reports whether the resize has ended, and returns an error if it did not succeed or was never begun.
func (o resizeOutcome) hasEnded(in *world.Observed, complete bool) (bool, error) {
	record, err := in.Record()
	if err != nil {
		return false, err
	}
	other := record != nil && record.Operation != o.former && (record.Request != o.request || record.IsRollback() || record.IsGrowth())
	begun := record != nil && record.Operation != o.former && !other
	present, requested := api.RequestOf(in.Set)
	switch {
	case begun:
	case other && record.IsGrowth() && record.Request == o.request:
		return true, nil // a growth by usage begins only if the set fulfils the request
	case !requested:
		return true, o.lost(in, "was withdrawn")
	case present != o.request:
		return true, o.lost(in, "was replaced by "+text.Printable(present))
	case other && !record.Active() && record.IsRollback():
		return true, o.lost(in, "was rolled back by operation "+record.Operation)
	}
	return hasEnded(in, complete)
}

// lost returns the error for a request that has no effect any more.
func (o resizeOutcome) lost(in *world.Observed, how string) error {
	return fmt.Errorf("StatefulSet %s/%s: the request %s %s before its resize ended. See what runs with: kubectl drydock status -n %s sts/%s",
		in.Set.Namespace, in.Set.Name, o.request, how, in.Set.Namespace, in.Set.Name)
}
