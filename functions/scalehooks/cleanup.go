package scalehooks

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// observeLeftBehind names the claims of members that the scaling has removed, where it waits for cleanup-pod to delete them.
func (f *Function) observeLeftBehind(ctx context.Context, in *Input) error {
	record, err := api.LoadScale(in.Set)
	if err != nil || !record.Active() || !record.CleansUp {
		return nil // Decide says what is wrong with the record
	}
	return kube.Pages(ctx, f.client, plan.Claims, in.Namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			name := l.Items[i].Name
			_, ordinal, ok := sts.ParseClaimName(in.Set, name)
			if ok && ordinal >= record.Start+int(record.Target) && ordinal < record.Start+int(record.Previous) {
				in.LeftBehind = append(in.LeftBehind, name)
			}
		}
	})
}

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members.
func (w work) awaitCleanup(then func() plan.Plan) plan.Plan {
	cleanup := operation.Of(w.Set).Cleanup
	switch {
	case len(w.LeftBehind) == 0 && !cleanup.Active():
		return then()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(w.record.Started.Time):
		return w.giveUp(api.HookFailed, fmt.Sprintf("the cleanup of %d claims has failed: %s", len(w.LeftBehind), cleanup.Message))
	case operation.Overdue(w.record, w.Now):
		return w.giveUp(api.DeadlineExceeded, fmt.Sprintf("%d claims of removed members were not cleaned up within %s; the annotation %s of the "+
			"StatefulSet tells why", len(w.LeftBehind), w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "%d claims are being cleaned up", len(w.LeftBehind))
}
