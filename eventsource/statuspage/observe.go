package statuspage

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// maxEvents limits the Events of a set that a page shows.
const maxEvents = 50

const optedIn = api.ManagedLabel + "=true"

// setFacts are the objects that the page of one set shows.
type setFacts struct {
	*world.Observed
	group  []overview.Facts // the opted-in sets of its group, or only the set
	events []corev1.Event   // the latest first
}

// readOverview reads every opted-in set of the namespaces that this Drydock serves.
func (p *Page) readOverview(ctx context.Context) (overview.Document, error) {
	namespaces := p.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var sets []overview.Facts
	for _, namespace := range namespaces {
		err := kube.Pages(ctx, p.client, plan.StatefulSets, namespace, optedIn, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				sets = append(sets, overview.FactsOf(&l.Items[i]).Reduced())
			}
		})
		if err != nil {
			return overview.Document{}, err
		}
	}
	return overview.New(sets, p.now()), nil
}

// readSet reads the content of the page of one set.
func (p *Page) readSet(ctx context.Context, v view) (setFacts, error) {
	if len(p.namespaces) > 0 && !slices.Contains(p.namespaces, v.namespace) {
		return setFacts{}, setNotFound(v.namespace, v.name)
	}
	managed := func(o *world.Observed) bool { return o.Set != nil && statefulset.Managed(o.Set) }
	observed, err := p.client.ObserveIf(ctx, events.Ref{Namespace: v.namespace, Name: v.name}, managed)
	if err != nil {
		return setFacts{}, err
	}
	if !managed(observed) {
		return setFacts{}, setNotFound(v.namespace, v.name)
	}
	observed.Now = p.now()
	facts := setFacts{Observed: observed}
	if facts.group, err = p.readGroup(ctx, observed.Set); err != nil {
		return setFacts{}, err
	}
	facts.events, err = p.client.EventsOf(ctx, v.namespace, "StatefulSet", v.name, maxEvents)
	return facts, err
}

// readGroup reads the opted-in sets of the set's group. A set without a group is alone.
func (p *Page) readGroup(ctx context.Context, set *appsv1.StatefulSet) ([]overview.Facts, error) {
	group := []overview.Facts{overview.FactsOf(set)}
	name := set.Labels[api.GroupLabel]
	if name == "" {
		return group, nil
	}
	selector := optedIn + "," + api.GroupLabel + "=" + name
	err := kube.Pages(ctx, p.client, plan.StatefulSets, set.Namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			if l.Items[i].Name != set.Name {
				group = append(group, overview.FactsOf(&l.Items[i]).Reduced())
			}
		}
	})
	return group, err
}
