package resize

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// NamesAttributes reports whether the request names a VolumeAttributesClass. Only then the cluster's classes have to be read.
func (w *Changes) NamesAttributes() bool {
	return slices.ContainsFunc(w.Templates, func(t api.TemplateTarget) bool { return t.Attributes != nil && *t.Attributes != "" })
}

// checkAttributesClasses refuses a VolumeAttributesClass that does not exist, or belongs to another driver than the volumes. The claims
// would request it for ever.
func checkAttributesClasses(in Input, w *Changes) []Problem {
	var found []Problem
	for _, t := range w.Templates {
		if t.Attributes == nil || *t.Attributes == "" {
			continue
		}
		attributes := in.Cluster.Attributes[*t.Attributes]
		if attributes == nil {
			found = append(found, problem(api.UnknownClass, "VolumeAttributesClass %s, requested for template %s, does not exist. Name a class "+
				"from kubectl get volumeattributesclass, which is empty before Kubernetes 1.34", *t.Attributes, t.Name))
			continue
		}
		for _, c := range w.Claims {
			class := in.Cluster.Classes[w.futureClass(c)]
			if c.Template == t.Name && class != nil && class.Provisioner != attributes.DriverName {
				found = append(found, problem(api.AttributesInfeasible, "VolumeAttributesClass %s belongs to driver %s, but StorageClass %s of "+
					"claim %s uses %s. Name a VolumeAttributesClass of driver %[5]s", attributes.Name, attributes.DriverName, w.futureClass(c), c.Name,
					class.Provisioner))
				break
			}
		}
	}
	return found
}

// checkAttributes finds claims with an unfinished or impossible change of the VolumeAttributesClass. After the swap, the new claim would
// request a class that its volume does not have, and Kubernetes would not bind the two.
func checkAttributes(in Input, w *Changes) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		volume := in.Volume(c.Spec.VolumeName)
		if c.Method != api.MethodCopy || volume == nil {
			continue
		}
		requested, present := valueOr(c.Spec.VolumeAttributesClassName, ""), valueOr(volume.Spec.VolumeAttributesClassName, "")
		if requested == present && c.Status.ModifyVolumeStatus == nil {
			continue
		}
		found = append(found, problem(api.ClaimBusy, "claim %s requests VolumeAttributesClass %q, but its volume %s has %q%s. "+
			"Wait until the change is done, or set the claim back to the class of its volume",
			c.Name, requested, volume.Name, present, statefulset.ModifyWords(c.PersistentVolumeClaim)))
	}
	return found
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
