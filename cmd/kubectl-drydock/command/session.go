package command

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// session is a command's access to the cluster, and to the StatefulSet that the command names.
type session struct {
	client    *kube.Client
	raw       *raw
	objects   dynamic.Interface
	apply     *apply.Executor
	namespace string
	name      string
	// refresh is the time between two looks at the objects around a followed set, for example its pods. The set itself is watched.
	refresh time.Duration
	// unread is the error of the right that is missing to observe the followed set with its objects. It is "" if all were read.
	unread string
	// rights caches the API server's answers about the user's rights.
	rights map[string]bool
}

// live reads the StatefulSet. It returns an error if the set does not exist.
func (s *session) live(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := s.client.Get(ctx, plan.StatefulSets, s.namespace, s.name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("there is no StatefulSet %s in namespace %s. Name another namespace with -n", s.name, s.namespace)
	}
	return set, nil
}

// managed reads the StatefulSet for commands that need the functions. It also returns an error if the set has not opted in.
func (s *session) managed(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := s.live(ctx)
	switch {
	case err != nil:
		return nil, err
	case !statefulset.Managed(set):
		return nil, s.notOptedIn(ctx, set)
	}
	return set, nil
}

// write applies the patch that decide returns for the live set. After a conflict it reads the set and decides again.
func (s *session) write(ctx context.Context, decide func(*appsv1.StatefulSet) (*plan.Patch, error)) error {
	_, err := s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		set, err := s.managed(ctx)
		if err != nil {
			return plan.Plan{}, err
		}
		patch, err := decide(set)
		if err != nil {
			return plan.Plan{}, err
		}
		return plan.Do(api.UpToDate, patch.Actions()...).Then("written", ""), nil
	})
	return err
}

// unchanged returns an error if the live set is another than the user has seen, or if something that decides about a resize has changed
// since. A question can stay open for a long time.
func unchanged(seen, live *appsv1.StatefulSet) error {
	before, after := operation.Of(seen).Resize, operation.Of(live).Resize
	same := before == nil && after == nil || before != nil && after != nil && before.Operation == after.Operation
	if seen.UID == live.UID && seen.Generation == live.Generation && same && operation.RefusalDigest(seen) == operation.RefusalDigest(live) {
		return nil
	}
	return fmt.Errorf("StatefulSet %s/%s has changed since it was shown to you. Nothing was requested. Run the command again", live.Namespace,
		live.Name)
}

// refOf returns the reference to the set for an event, with the operation of its record.
func refOf(set *appsv1.StatefulSet) events.Ref {
	ref := events.Ref{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion}
	if status, err := statusOf(set); err == nil && status != nil {
		ref.Operation = status.Operation
	}
	return ref
}

func statusOf(set *appsv1.StatefulSet) (*api.Resize, error) {
	return api.LoadResize(set)
}
