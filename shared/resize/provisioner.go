package resize

import (
	"slices"

	"drydock.dev/shared/api"
)

// noProvisioner is the provisioner of a class whose volumes an administrator creates
// (kubernetes component-helpers storage/volume, NotSupportedProvisioner).
const noProvisioner = "kubernetes.io/no-provisioner"

// checkProvisioners refuses to copy to a class without a provisioner, because every volume of such a class may hold data.
func checkProvisioners(in Input, w *Changes) []Problem {
	var found []Problem
	var reported []string
	for _, c := range w.Claims {
		class := w.futureClass(c)
		storageClass := in.Cluster.Classes[class]
		if !c.ChangesVolume() || storageClass == nil || storageClass.Provisioner != noProvisioner || slices.Contains(reported, class) {
			continue
		}
		reported = append(reported, class)
		found = append(found, problem(api.NotProvisioned, "StorageClass %s provisions no volumes, so claim %s cannot be copied to a new volume. "+
			"Name a StorageClass with a provisioner in %s", class, c.Name, api.ResizeAnnotation))
	}
	return found
}
