package owners

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
)

// OptIn says where the label drydock.dev/managed lasts.
type OptIn string

const (
	// OptInSet is the StatefulSet. It is the default.
	OptInSet OptIn = "set"
	// OptInResource is the custom resource. Its operator removes labels that it does not know from its StatefulSets, and copies the labels
	// of the resource to them.
	OptInResource OptIn = "resource"
	// OptInCreation is the custom resource, when it is created. Its operator also copies the labels of the resource into the pod template,
	// so a label on a living resource restarts its pods.
	OptInCreation OptIn = "creation"
)

// OnResource reports whether the label of the row's StatefulSets goes on their custom resource.
func (r Row) OnResource() bool { return r.OptIn == OptInResource || r.OptIn == OptInCreation }

// OptInCommand returns the command that opts the StatefulSet in where that lasts.
func (r Registry) OptInCommand(set *appsv1.StatefulSet) string {
	if row, controller := r.rowOf(set); row.OnResource() {
		return row.optInCommand(set.Namespace, *controller)
	}
	return fmt.Sprintf("kubectl label -n %s sts %s %s=true", set.Namespace, set.Name, api.ManagedLabel)
}

// OptInAdvice says how the StatefulSet stays opted in, if its operator removes the label from it and the resource lacks the label. Else it
// is empty. resource is the controller of the set; nil: it is unknown, and counts as one without the label.
func (r Registry) OptInAdvice(set *appsv1.StatefulSet, resource *unstructured.Unstructured) string {
	row, controller := r.rowOf(set)
	if !row.OnResource() || resource != nil && resource.GetLabels()[api.ManagedLabel] == "true" {
		return ""
	}
	return fmt.Sprintf("the operator of %s %s removes the label %s from its StatefulSets. Label the resource: %s", controller.Kind,
		controller.Name, api.ManagedLabel, row.optInCommand(set.Namespace, *controller))
}

// rowOf returns the row of the set's controller. The row is empty if the set has no controller, or no row names its kind.
func (r Registry) rowOf(set *appsv1.StatefulSet) (Row, *metav1.OwnerReference) {
	controller := metav1.GetControllerOf(set)
	if controller == nil {
		return Row{}, nil
	}
	gv, _ := schema.ParseGroupVersion(controller.APIVersion) // an unreadable version is in no row
	row, _ := r.Find(gv.Group, controller.Kind)
	return row, controller
}

// optInCommand returns the command that labels the resource, and its consequence.
func (r Row) optInCommand(namespace string, resource metav1.OwnerReference) string {
	command := fmt.Sprintf("kubectl label -n %s %s.%s %s %s=true", namespace, r.Plural(resource.Kind), r.Group, resource.Name,
		api.ManagedLabel)
	if r.OptIn == OptInCreation {
		command += " (this restarts the pods, because the operator copies the label into them)"
	}
	return command
}
