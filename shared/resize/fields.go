package resize

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// readFields compares the fields of the request with the set.
func (w *Wish) readFields(in Input, request api.Request) {
	for _, s := range request.Fields {
		if _, known := sts.FieldOf(in.Set, s); !known {
			w.refuse(problem(api.UnknownTemplate, "%s=%q names template %q, StatefulSet %s has %s; name one of those", api.ResizeAnnotation,
				w.Request, s.Template, in.Set.Name, templateNames(in)))
		}
	}
	w.Fields = sts.Unmet(in.Set, request.Fields)
	w.Recreate = w.Recreate || len(w.Fields) > 0
}

// unsettled reports whether the set lacks one of the fields, or the template that it is about.
func unsettled(set *appsv1.StatefulSet, fields []api.Field) bool {
	return len(sts.Unmet(set, fields)) > 0 || len(sts.FieldsOf(set, fields)) < len(fields)
}

// checkFields refuses a template that cannot be added or removed without an effect on pods.
func checkFields(in Input, w *Wish) []Problem {
	var found []Problem
	if why := CannotAdd(in.Set, w.Fields); why != "" {
		found = append(found, problem(api.PodsLackVolume, "%s", why))
	}
	for _, s := range w.Fields {
		switch {
		case s.Removes() && sts.MountsVolume(in.Set, s.Template):
			found = append(found, problem(api.TemplateMounted, "the pod template of StatefulSet %s mounts the volume of template %s, so no pod could "+
				"be created without it. Remove the mount from the pod template first", in.Set.Name, s.Template))
		case s.Adds() && s.Ask.Class != "" && in.Cluster != nil && in.Cluster.Classes[s.Ask.Class] == nil:
			found = append(found, problem(api.UnknownClass, "template %s is to have StorageClass %s, which does not exist; create it, or name another one",
				s.Template, s.Ask.Class))
		}
	}
	return found
}

// CannotAdd says why a template of the fields cannot be added now; empty if it can. A running pod cannot get another volume. For a pod that
// lacks one, the StatefulSet controller creates the claim, fails to update the pod, and does nothing else for the set until the pod is
// replaced: neither does it create a pod that is missing (kubernetes pkg/controller/statefulset, storageMatches and UpdateStatefulPod).
func CannotAdd(set *appsv1.StatefulSet, fields []api.Field) string {
	for _, s := range fields {
		if s.Adds() && !sts.AtZero(set) {
			return fmt.Sprintf("template %s cannot be added while StatefulSet %s has pods: a pod cannot get another volume while it exists, and the "+
				"StatefulSet controller would repair no member until each pod was replaced. Scale the set to zero; the template is added, and then "+
				"scale it up", s.Template, set.Name)
		}
	}
	return ""
}
