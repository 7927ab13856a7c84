package resize

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/test/kit/build"
)

func inZone(zone string) build.Option {
	return build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
	})
}

func TestClassWithUnreachableVolumesIsRefused(t *testing.T) {
	c := build.Claim("data-web-0", "64Mi", build.OfClass(expandableClass))
	sources := objects{c, build.VolumeOf(c, inZone("a"))}
	selects := func(zone string) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": zone} })
	}
	offering := func(in Input, zones ...string) Input {
		in.Cluster.Classes["fast"] = &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}}
		return in
	}
	expectProblems(t, map[string]preflight{
		"no node can mount both volumes":            {offering(input(setAsking("data=128Mi@fast"), sources), "b", "c"), "TopologyConflict"},
		"the class has volumes on those nodes, too": {offering(input(setAsking("data=128Mi@fast"), sources), "b", "a"), ""},
		"the class has no topology":                 {input(setAsking("data=128Mi@fast"), sources), ""},
		"the volume is reachable from anywhere":     {offering(input(setAsking("data=128Mi@fast"), twoClaims()), "b"), ""},
		"the claims only grow":                      {offering(input(setAsking("data=128Mi"), sources), "b"), ""},
		"no pod can use a new volume": {offering(input(setAsking("data=128Mi@fast", selects("a")), twoClaims()), "b"),
			"TopologyConflict"},
	})
}
