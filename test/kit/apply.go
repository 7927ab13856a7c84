package kit

import (
	"context"
	"path/filepath"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// InstallApply installs the policies of config/apply in the whole cluster and waits until they are in force.
// They are never removed.
func (w *World) InstallApply() {
	w.T.Helper()
	applied.Lock() // several tests run at once
	w.Kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=drydock-config", "-k",
		filepath.Join(Root(w.T), "config", w.applyConfig()))
	applied.Unlock()
	w.awaitApply()
}

var applied sync.Mutex

// applyConfig returns the folder for the version of the API server.
func (w *World) applyConfig() string {
	w.T.Helper()
	_, err := w.Kube.AdmissionregistrationV1beta1().MutatingAdmissionPolicies().List(context.Background(), metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return "apply"
	}
	w.must(err)
	return "apply-v1beta1"
}

// awaitApply waits until a dry run of larger templates succeeds.
func (w *World) awaitApply() {
	w.T.Helper()
	ctx, sets := context.Background(), w.Kube.AppsV1().StatefulSets(w.Namespace)
	_, err := sets.Create(ctx, WorldSet("probe", 0, "64Mi", "data"), metav1.CreateOptions{})
	w.must(err)
	w.Eventually("larger templates are taken as a request", func() string {
		set := w.Set("probe")
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"] = *Quantity("128Mi")
		set, err := sets.Update(ctx, set, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if set.Annotations[api.ResizeAnnotation] == "" {
			return "there is no request"
		}
		return ""
	})
	w.DeleteSet("probe", metav1.DeletePropagationBackground)
}
