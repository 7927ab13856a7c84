package resize

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// NamesAttributes reports whether the request names a VolumeAttributesClass, so that the cluster's have to be known.
func (w *Wish) NamesAttributes() bool {
	return slices.ContainsFunc(w.Templates, func(t api.TemplateTarget) bool { return t.Attributes != nil && *t.Attributes != "" })
}

// checkAttributesClasses refuses a VolumeAttributesClass that does not exist, or that is of another driver than the volumes: the claims
// would ask for it for ever.
func checkAttributesClasses(in Input, w *Wish) []Problem {
	var found []Problem
	for _, t := range w.Templates {
		if t.Attributes == nil || *t.Attributes == "" {
			continue
		}
		attributes := in.Cluster.Attributes[*t.Attributes]
		if attributes == nil {
			found = append(found, problem(api.UnknownClass, "VolumeAttributesClass %s, asked for template %s, does not exist; name one of those "+
				"that kubectl get volumeattributesclass lists. Clusters before Kubernetes 1.34 have none", *t.Attributes, t.Name))
			continue
		}
		for _, c := range w.Claims {
			class := in.Cluster.Classes[w.class(c)]
			if c.Template == t.Name && class != nil && class.Provisioner != attributes.DriverName {
				found = append(found, problem(api.AttributesInfeasible, "VolumeAttributesClass %s is of driver %s, and the StorageClass %s of claim %s "+
					"is of %s; name one of its driver", attributes.Name, attributes.DriverName, w.class(c), c.Name, class.Provisioner))
				break
			}
		}
	}
	return found
}

// checkAttributes finds claims whose change of the VolumeAttributesClass is not done, or cannot be done: the claim that replaces one would
// ask for a class that its volume has not, and would not be bound to it.
func checkAttributes(in Input, w *Wish) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		volume := in.Volume(c.Spec.VolumeName)
		if c.Method != api.MethodCopy || volume == nil {
			continue
		}
		asks, has := valueOr(c.Spec.VolumeAttributesClassName, ""), valueOr(volume.Spec.VolumeAttributesClassName, "")
		if asks == has && c.Status.ModifyVolumeStatus == nil {
			continue
		}
		found = append(found, problem(api.ClaimBusy, "claim %s asks for VolumeAttributesClass %q, its volume %s has %q%s. "+
			"Wait until the change is done, or set the claim back to the class of its volume",
			c.Name, asks, volume.Name, has, statefulset.ModifyWords(c.PersistentVolumeClaim)))
	}
	return found
}
