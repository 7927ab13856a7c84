package resize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const snapshotFinalizer = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

func TestForeignFinalizerRefusesWhatWouldBeReplaced(t *testing.T) {
	const protection = "kubernetes.io/pvc-protection"
	snapshot := build.Finalizers(protection, snapshotFinalizer)
	other := build.Finalizers("example.com/keep")
	expectProblems(t, map[string]preflight{
		"a snapshot of a claim that is copied is not ready": {given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi", snapshot)),
			"ForeignFinalizer"},
		"a claim that is copied is cloned": {given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi",
			build.Finalizers("provisioner.storage.kubernetes.io/cloning-protection"))), "ForeignFinalizer"},
		"a controller that nobody knows": {given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi", other)), "ForeignFinalizer"},
		"a claim that only grows stays":  {given(wants("data=128Mi"), grower("data-web-0", "64Mi", snapshot)), ""},
		"claim protection is Kubernetes's own, the switch finalizer Drydock's": {
			given(wants("data=128Mi@fast"), grower("data-web-0", "64Mi", build.Finalizers(protection, api.SwitchFinalizer))), ""},
		"the set is created again": {given(wants("data=128Mi", other), two()), "ForeignFinalizer"},
		"the set is not created again": {given(objects{build.Set("web", build.Template("data", "64Mi", roomy), build.Resize("auto"), other)},
			grower("data-web-0", "32Mi")), ""},
		"the set has the finalizer of a cleanup": {given(wants("data=128Mi", build.Finalizers(api.CleanupFinalizer)), two()), ""},
	})
}
