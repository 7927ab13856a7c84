package resize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const snapshotFinalizer = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

func TestForeignFinalizerOnReplacedObjectIsRefused(t *testing.T) {
	const protection = "kubernetes.io/pvc-protection"
	snapshot := build.Finalizers(protection, snapshotFinalizer)
	other := build.Finalizers("example.com/keep")
	expectProblems(t, map[string]preflight{
		"a copied claim with a snapshot that is not ready": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", snapshot)),
			"ForeignFinalizer"},
		"a copied claim that is being cloned": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi",
			build.Finalizers("provisioner.storage.kubernetes.io/cloning-protection"))), "ForeignFinalizer"},
		"a copied claim with an unknown finalizer": {input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", other)),
			"ForeignFinalizer"},
		"a claim that grows in place": {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", snapshot)), ""},
		"finalizers of claim protection and of Drydock": {
			input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Finalizers(protection, api.FreezeFinalizer))), ""},
		"the set is created again": {input(setAsking("data=128Mi", other), twoClaims()), "ForeignFinalizer"},
		"the set is not created again": {input(objects{build.Set("web", build.Template("data", "64Mi", expandableClass), build.Resize("auto"),
			other)},
			expandable("data-web-0", "32Mi")), ""},
		"the set has the finalizer of a cleanup": {input(setAsking("data=128Mi", build.Finalizers(api.CleanupFinalizer)), twoClaims()), ""},
	})
}
