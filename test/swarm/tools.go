package swarm

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/apiserver"
)

// manifest returns the labels and annotations of a set in its users' manifest.
func (w *World) manifest(set string) (labels, annotations map[string]any) {
	labels = map[string]any{"app": set, api.ManagedLabel: "true"}
	annotations = map[string]any{}
	if w.Group {
		labels[api.GroupLabel] = "shop"
	}
	if w.Idle {
		annotations[api.IdleTimeoutAnnotation] = "30m"
	}
	if w.Cleanup {
		annotations[api.CleanupTemplateAnnotation] = cleanupTemplate
	}
	if w.CleanOnDelete {
		annotations[api.CleanupOnDeleteAnnotation] = "true"
	}
	if w.CancelOnUp {
		annotations[api.CleanupOnScaleUpAnnotation] = "cancel"
	}
	return labels, annotations
}

// apply lets a deployment tool write the fields of the manifest again, as server-side apply does. The manifest has no count if a Scaler has
// the set. It may request a resize.
func (w *World) apply(set string, resizes bool) {
	if w.isOwned(set) {
		return
	}
	labels, annotations := w.manifest(set)
	if resizes {
		annotations[api.ResizeAnnotation] = "data=2Gi"
	}
	w.change(tool, in("statefulsets", set), "", func(o *apiserver.Object) {
		for key, value := range labels {
			put(o, value, "metadata", "labels", key)
		}
		for key, value := range annotations {
			put(o, value, "metadata", "annotations", key)
		}
		w.putSpec(o, set)
	})
}

// replaceAll lets a user replace a set with its manifest: all other labels, annotations and finalizers are lost.
func (w *World) replaceAll(set string) {
	if w.isOwned(set) {
		return
	}
	labels, annotations := w.manifest(set)
	w.change(replacing, in("statefulsets", set), "", func(o *apiserver.Object) {
		put(o, maps.Clone(labels), "metadata", "labels")
		put(o, maps.Clone(annotations), "metadata", "annotations")
		put(o, nil, "metadata", "finalizers")
		w.putSpec(o, set)
	})
}

var replacing = apiserver.Client{User: person.User, Manager: "kubectl-replace"}

// putSpec writes the count and the retention of claims from the manifest.
func (w *World) putSpec(o *apiserver.Object, set string) {
	if _, scaled := w.wishes.scalers[set]; !scaled {
		put(o, int64(w.wishes.counts[set]), "spec", "replicas")
	}
	put(o, w.wishes.policies[set], "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled")
}

// replace lets a deployment tool replace the metadata of a set with its manifest, which has no records.
func (w *World) replace(set string) {
	w.change(tool, in("statefulsets", set), "", func(o *apiserver.Object) {
		for _, name := range []string{api.SleepAnnotation, api.ScaleAnnotation, api.StatusAnnotation, api.CleanupAnnotation,
			api.StopAnnotation, api.LedgerAnnotation, api.LastActivityAnnotation, api.AwakeUntilAnnotation} {
			put(o, nil, "metadata", "annotations", name)
		}
		put(o, w.wishes.policies[set], "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled")
	})
}

func (w *World) backup(set string) {
	if o := w.set(set); o.GetDeletionTimestamp() == nil && !w.isOwned(set) {
		w.backups[set] = backup{o, w.wishes.policies[set], w.wishes.counts[set]}
	}
}

// restoreBackup lets a backup tool create a set again, with all annotations of the backup.
func (w *World) restoreBackup(set string) {
	b, has := w.backups[set]
	if !has || w.set(set) != nil || w.isOwned(set) {
		return
	}
	o := b.set.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences",
		"finalizers"} {
		put(o, nil, "metadata", field)
	}
	w.wishes.policies[set], w.wishes.counts[set] = b.policy, b.count
	delete(w.wishes.also, set)
	w.note(set)
	w.create(tool, "statefulsets", o.Object)
}

// recreate creates a set that does not exist. The manifest has no count if a Scaler has the set, and the API server then takes one.
func (w *World) recreate(set string) {
	if w.set(set) != nil || w.isOwned(set) {
		return
	}
	n := w.wish(set)
	if _, scaled := w.wishes.scalers[set]; scaled {
		n = 1
		for ordinal := 1; ordinal < maxMembers && w.wishes.policies[set] == "Delete"; ordinal++ {
			w.wishes.free[claimName(set, ordinal)] = true // the user's own policy removes the claims of orphaned pods
		}
	}
	w.createSet(person, set, n)
}

// backup is a set as a backup tool has it, with the wishes of that time.
type backup struct {
	set    *apiserver.Object
	policy string
	count  int
}

// leaver is an administrator who releases a set with kubectl drydock release. It reads the set and its stops, and decides and writes as
// the command does. A set with an operator is not released: its owner would have to be read, too.
type leaver struct {
	client *kube.Client
	apply  *apply.Executor
}

// leaving is the pool of administrators who release a set.
const leaving api.Function = "release"

func newLeaver(w *World) leaver {
	client := clientOf(w, admin.User)
	return leaver{client, apply.New(client, leaving, slog.New(slog.DiscardHandler))}
}

// clientOf returns a client whose requests may stop on their way, as those of functions.
func clientOf(w *World, user string) *kube.Client {
	return kube.NewClient(&rest.Config{Host: "http://api", Transport: gate{w}, Impersonate: rest.ImpersonationConfig{UserName: user}})
}

func (l leaver) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return l.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		in := release.Input{Now: time.Now(), Namespace: ref.Namespace, Name: ref.Name, Set: &appsv1.StatefulSet{}}
		if found, err := l.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, in.Set); err != nil || !found {
			return plan.Noop(api.SetGone), err
		}
		err := kube.Pages(ctx, l.client, plan.ControllerRevisions, ref.Namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
			func(list *appsv1.ControllerRevisionList) {
				for i := range list.Items {
					switch link := api.RevisionLink(&list.Items[i]); {
					case link == nil || link.Set.Name != ref.Name:
					case link.Role == api.RoleStop:
						in.Stops = append(in.Stops, &list.Items[i])
					case link.Role == api.RoleJournal:
						in.Journals = append(in.Journals, &list.Items[i])
					}
				}
			})
		actions, _ := release.Decide(in)
		return plan.Do(api.CleaningUp, actions...).Then("written", ""), err
	})
}
