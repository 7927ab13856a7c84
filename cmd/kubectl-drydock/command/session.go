package command

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// session is a command's view of one StatefulSet in the cluster.
type session struct {
	client    *kube.Client
	raw       *raw
	apply     *apply.Executor
	namespace string
	name      string
	// rights are the user's rights as the API server has told them.
	rights map[string]bool
}

// parseSet reads how an argument names a StatefulSet: sts/web, statefulset/web, statefulsets.apps/web, or web.
func parseSet(argument string) (string, error) {
	name := argument
	if kind, rest, typed := strings.Cut(argument, "/"); typed {
		switch strings.ToLower(kind) {
		case "sts", "statefulset", "statefulsets", "statefulset.apps", "statefulsets.apps":
			name = rest
		default:
			return "", fmt.Errorf("%q is a %s; Drydock looks after StatefulSets: write sts/NAME", argument, kind)
		}
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q does not name a StatefulSet: %s", argument, problems[0])
	}
	return name, nil
}

// live reads the live StatefulSet. It is an error if it does not exist.
func (s *session) live(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := s.client.Get(ctx, plan.StatefulSets, s.namespace, s.name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("there is no StatefulSet %s in namespace %s; name another with -n", s.name, s.namespace)
	}
	return set, nil
}

// set is live for commands that need the functions: it is an error, too, if the set has not opted in.
func (s *session) set(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := s.live(ctx)
	switch {
	case err != nil:
		return nil, err
	case !statefulset.Managed(set):
		return nil, fmt.Errorf("StatefulSet %s/%s has not opted in, so no function would touch it; kubectl label -n %s sts %s %s=true opts it in",
			s.namespace, s.name, s.namespace, s.name, api.ManagedLabel)
	}
	return set, nil
}

// write has the live set decided on and written, once; after a conflict again.
func (s *session) write(ctx context.Context, decide func(*appsv1.StatefulSet) (*plan.Patch, error)) error {
	_, err := s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		set, err := s.set(ctx)
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

// refOf names the live set in an event, with the operation in its record.
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
