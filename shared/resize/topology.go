package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// checkTopology finds classes whose volumes no mover could mount together with the claim's present volume, or that no pod could mount. A
// class without allowedTopologies may still provision an unreachable volume; backup checks the volume itself.
func checkTopology(in Input, w *Changes) []Problem {
	var found []Problem
	reported := map[string]bool{}
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		class := w.futureClass(c)
		offered := statefulset.NodesOfClass(in.Cluster.Classes[class])
		if source := statefulset.NodesOfVolume(in.Volume(c.Spec.VolumeName)); source.Disjoint(offered) {
			found = append(found, problem(api.TopologyConflict, "StorageClass %s provisions volumes only for nodes with %s, but volume %s of "+
				"claim %s is reachable only from nodes with %s, so no node can mount both. Name a class with volumes on those nodes",
				class, offered, c.Spec.VolumeName, c.Name, source))
		}
		if pods := statefulset.NodesOfPods(&in.Set.Spec.Template.Spec); pods.Disjoint(offered) && !reported[class] {
			reported[class] = true
			found = append(found, problem(api.TopologyConflict, "StorageClass %s provisions volumes only for nodes with %s, but the pods of "+
				"StatefulSet %s run only on nodes with %s. Name a class with volumes on those nodes, or change the pod template's node selector "+
				"or affinity", class, offered, in.Set.Name, pods))
		}
	}
	return found
}
