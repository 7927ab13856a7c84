package resize

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// readFields compares the fields of the request with the set.
func (w *Wish) readFields(in Input, request api.Request) {
	for _, f := range request.Fields {
		if _, known := statefulset.FieldOf(in.Set, f); !known {
			w.refuse(problem(api.UnknownTemplate, "%s=%q names template %q, StatefulSet %s has %s; name one of those", api.ResizeAnnotation,
				w.Request, f.Template, in.Set.Name, templateNames(in)))
		}
	}
	w.Fields = statefulset.Unmet(in.Set, request.Fields)
	w.Recreate = w.Recreate || len(w.Fields) > 0
}

// unsettled reports whether the set lacks one of the fields, or the template of one.
func unsettled(set *appsv1.StatefulSet, fields []api.Field) bool {
	return len(statefulset.Unmet(set, fields)) > 0 || len(statefulset.FieldsOf(set, fields)) < len(fields)
}

// checkFields refuses to add or remove a template if pods could not run after that.
func checkFields(in Input, w *Wish) []Problem {
	var found []Problem
	if why := CannotAdd(in.Set, w.Fields); why != "" {
		found = append(found, problem(api.PodsLackVolume, "%s", why))
	}
	for _, f := range w.Fields {
		switch {
		case f.Removes() && statefulset.MountsVolume(in.Set, f.Template):
			found = append(found, problem(api.TemplateMounted, "the pod template of StatefulSet %s mounts the volume of template %s, so no pod could "+
				"be created without it. Remove the mount from the pod template first", in.Set.Name, f.Template))
		case f.Adds() && f.Ask.Class != "" && in.Cluster != nil && in.Cluster.Classes[f.Ask.Class] == nil:
			found = append(found, problem(api.UnknownClass, "template %s is to have StorageClass %s, which does not exist; create it, or name another one",
				f.Template, f.Ask.Class))
		}
	}
	return found
}

// CannotAdd returns why a template of the fields cannot be added now; "" if it can. A running pod cannot get another volume. For a pod that lacks
// one, the StatefulSet controller creates the claim, fails to update the pod, and does nothing else for the set until the pod is replaced: it
// creates no missing pod either (kubernetes pkg/controller/statefulset, storageMatches and UpdateStatefulPod).
func CannotAdd(set *appsv1.StatefulSet, fields []api.Field) string {
	for _, f := range fields {
		if f.Adds() && !statefulset.AtZero(set) {
			return fmt.Sprintf("template %s cannot be added while StatefulSet %s has pods: a running pod cannot get another volume, and the "+
				"StatefulSet controller would repair no member until each pod was replaced. Scale the set to zero. When the template is added, "+
				"scale it up", f.Template, set.Name)
		}
	}
	return ""
}
