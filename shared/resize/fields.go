package resize

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// lacksFields reports whether the set lacks one of the fields, or the template of a field.
func lacksFields(set *appsv1.StatefulSet, fields []api.Field) bool {
	return len(statefulset.Unmet(set, fields)) > 0 || len(statefulset.FieldsOf(set, fields)) < len(fields)
}

// checkFields refuses to add or remove a template if the pods could not run afterwards.
func checkFields(in Input, w *Changes) []Problem {
	var found []Problem
	if why := ObstacleToAddTemplate(in.Set, w.Fields); why != "" {
		found = append(found, problem(api.PodsLackVolume, "%s", why))
	}
	for _, f := range w.Fields {
		switch {
		case f.Removes() && statefulset.MountsVolume(in.Set, f.Template):
			found = append(found, problem(api.TemplateMounted, "the pod template of StatefulSet %s mounts the volume of template %s, so its pods "+
				"need the template. Remove the mount from the pod template first", in.Set.Name, f.Template))
		case f.Adds() && f.Ask.Class != "" && in.Cluster != nil && in.Cluster.Classes[f.Ask.Class] == nil:
			found = append(found, problem(api.UnknownClass, "StorageClass %s, requested for template %s, does not exist. Create it, or name "+
				"another class", f.Ask.Class, f.Template))
		}
	}
	return found
}

// ObstacleToAddTemplate returns why a template of the fields cannot be added now. It is empty if it can. A running pod cannot get another
// volume. For a pod that lacks a volume, the StatefulSet controller creates the claim and fails to update the pod. Until that pod is
// replaced, the controller does nothing else for the set and creates no missing pod (kubernetes pkg/controller/statefulset, storageMatches
// and UpdateStatefulPod).
func ObstacleToAddTemplate(set *appsv1.StatefulSet, fields []api.Field) string {
	for _, f := range fields {
		if f.Adds() && !statefulset.AtZero(set) {
			return fmt.Sprintf("template %s cannot be added while StatefulSet %s has pods: a running pod cannot get another volume, and the "+
				"StatefulSet controller would repair no member until every pod is replaced. Scale the set to zero, wait until the template is "+
				"added, then scale up", f.Template, set.Name)
		}
	}
	return ""
}

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
		requested, present := ptr.Deref(c.Spec.VolumeAttributesClassName, ""), ptr.Deref(volume.Spec.VolumeAttributesClassName, "")
		if requested == present && c.Status.ModifyVolumeStatus == nil {
			continue
		}
		found = append(found, problem(api.ClaimBusy, "claim %s requests VolumeAttributesClass %q, but its volume %s has %q%s. "+
			"Wait until the change is done, or set the claim back to the class of its volume",
			c.Name, requested, volume.Name, present, statefulset.ModifyWords(c.PersistentVolumeClaim)))
	}
	return found
}
