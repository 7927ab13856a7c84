package sift

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
)

// sweepVolumes finds old volumes whose retention has expired, and volumes of operations that no set and no journal names, for example
// after the deletion of their namespace. Volumes have no namespace, but their links do. It also counts the volumes that operations keep
// from being reclaimed.
func (f *Function) sweepVolumes(ctx context.Context, now time.Time, found *findings) error {
	selector := api.OperationLabel
	if !slices.Contains(f.namespaces, metav1.NamespaceAll) {
		selector += fmt.Sprintf(",%s in (%s)", api.NamespaceLabel, strings.Join(f.namespaces, ","))
	}
	counts := telemetry.ProtectedVolumes{}
	err := kube.Pages(ctx, f.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			if err != nil || link == nil || !f.covers(link.Namespace) || found.incomplete[link.Namespace] {
				continue
			}
			orphaned := found.isOrphaned(&l.Items[i], link, now)
			countVolume(&counts, &l.Items[i], orphaned)
			if !orphaned && world.IsRetained(&l.Items[i]) {
				found.figures.addRetained(&l.Items[i])
			}
			if !orphaned && !world.Expired(&l.Items[i], now) {
				continue
			}
			ref := events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID}
			found.add(notice{ref: ref, cause: stateID(&l.Items[i]), functions: []api.Function{api.Restore}})
		}
	})
	if err == nil {
		telemetry.From(ctx).SetProtectedVolumes(counts)
	}
	return err
}

// isOrphaned reports whether the volume's operation is over and has left the volume.
func (r *findings) isOrphaned(volume *corev1.PersistentVolume, link *api.Link, now time.Time) bool {
	return r.isOver(operationKey{link.Namespace, link.Operation}) && world.MayBeOrphan(volume, now)
}

func countVolume(counts *telemetry.ProtectedVolumes, volume *corev1.PersistentVolume, orphaned bool) {
	switch {
	case orphaned:
		counts.Orphaned++
	case world.IsRetained(volume):
		counts.Retained++
	default:
		counts.InUse++
	}
}

// covers reports whether Drydock looks after the namespace.
func (f *Function) covers(namespace string) bool {
	return f.namespaces[0] == "" || slices.Contains(f.namespaces, namespace)
}
