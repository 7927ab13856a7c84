package doctor

import (
	"fmt"
	"slices"
)

func storage(f Facts) []Finding {
	return []Finding{classes(f.Classes), moverImage(f), pulls(f.Images.Waiting)}
}

func classes(found Answer[[]Class]) Finding {
	const subject = "classes"
	if !found.Known() {
		return found.unknown(subject)
	}
	var defaults, fixed []string
	for _, c := range found.Value {
		if c.Default {
			defaults = append(defaults, c.Name)
		}
		if !c.Expandable {
			fixed = append(fixed, c.Name)
		}
	}
	f := Finding{Subject: subject, Level: OK, State: fmt.Sprintf("default %s; volumes of every class can grow in place", list(defaults))}
	if len(fixed) > 0 {
		f.State = fmt.Sprintf("default %s; volumes of %s cannot grow in place, so Drydock copies them", list(defaults), list(fixed))
	}
	switch {
	case len(found.Value) == 0:
		return Finding{subject, Note, "the cluster has no StorageClass, so Drydock cannot create volumes",
			"install a CSI driver and a StorageClass"}
	case len(defaults) == 0:
		f.Level, f.State = Note, "no default"+f.State[len("default "):]
		f.Remedy = "name a class in each volumeClaimTemplate, or mark a StorageClass as default"
	case len(defaults) > 1:
		f.Level, f.Remedy = Note, "keep one default StorageClass. Kubernetes takes the newest"
	}
	return f
}

// moverImage checks the image of the pods that copy volumes. The policies accept only images that the Role names.
func moverImage(f Facts) Finding {
	const subject = "mover image"
	allowed := slices.DeleteFunc(slices.Clone(f.Images.Allowed.Value), func(image string) bool { return image == "unset" || image == "" })
	image := f.Settings.Value["DRYDOCK_IMAGE"]
	switch {
	case !f.Images.Allowed.Known():
		return f.Images.Allowed.unknown(subject)
	case len(allowed) == 0:
		return Finding{subject, Problem, "Role drydock-mover-image allows no image, so no volume can be copied", reinstall}
	case !f.Settings.Known():
		return f.Settings.unknown(subject)
	case f.Settings.Value != nil && image == "":
		return Finding{subject, Problem, "ConfigMap drydock-settings does not set DRYDOCK_IMAGE, so no volume can be copied",
			reinstall}
	case image != "" && !slices.Contains(allowed, image):
		return Finding{subject, Problem, "Role drydock-mover-image does not allow DRYDOCK_IMAGE " + image + ", so no volume can be copied",
			reinstall}
	case image == "":
		return Finding{subject, OK, "allowed: " + list(allowed), ""}
	}
	return Finding{subject, OK, image, ""}
}

// pulls lists the pods that wait for their image.
func pulls(found Answer[[]Waiting]) Finding {
	const subject = "images"
	if !found.Known() {
		return found.unknown(subject)
	}
	if len(found.Value) == 0 {
		return Finding{subject, OK, "no pod waits for its image", ""}
	}
	var waiting []string
	for _, w := range found.Value {
		waiting = append(waiting, fmt.Sprintf("pod %s/%s: %s (%s)", w.Namespace, w.Pod, w.Image, w.Reason))
	}
	first := found.Value[0]
	return Finding{subject, Problem, "they cannot be pulled: " + list(waiting),
		"kubectl -n " + first.Namespace + " describe pod " + first.Pod + " shows why. Correct the image, or give the namespace a pull secret"}
}
