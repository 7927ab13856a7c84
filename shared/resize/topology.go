package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// checkTopology finds classes that make volumes only where the claim's volume, or the set's pods, cannot be: no mover could mount both
// volumes, or no pod the new one. A class without allowedTopologies may still provision a volume elsewhere; backup looks at that volume.
func checkTopology(in Input, w *Wish) []Problem {
	var found []Problem
	told := map[string]bool{}
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		class := w.class(c)
		offered := statefulset.NodesOfClass(in.Cluster.Classes[class])
		if source := statefulset.NodesOfVolume(in.Volume(c.Spec.VolumeName)); source.Apart(offered) {
			found = append(found, problem(api.TopologyConflict, "StorageClass %s makes volumes for nodes with %s only; "+
				"volume %s of claim %s is reachable from nodes with %s only, so no node can mount both. Name a class with volumes there",
				class, offered, c.Spec.VolumeName, c.Name, source))
		}
		if pods := statefulset.NodesOfPods(&in.Set.Spec.Template.Spec); pods.Apart(offered) && !told[class] {
			told[class] = true
			found = append(found, problem(api.TopologyConflict, "StorageClass %s makes volumes for nodes with %s only; "+
				"the pods of StatefulSet %s may run on nodes with %s only. Name a class with volumes there, "+
				"or change the pod template's node selector or affinity", class, offered, in.Set.Name, pods))
		}
	}
	return found
}
