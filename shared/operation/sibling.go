package operation

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// MayStop reports whether the operator may stop the set because Drydock has stopped the owner for another set. If the owner is above that
// set's controller, kindBelow is the kind of the controller, else empty. Nothing tells which other controllers of that kind belong to the
// owner, unless the operator was stopped for a sleep of this set, too.
func MayStop(set *appsv1.StatefulSet, owner types.UID, kindBelow string) bool {
	controller := statefulset.Controller(set)
	switch sleep, err := api.LoadSleep(set); {
	case controller == nil:
		return false
	case controller.UID == owner:
		return true
	case err == nil && sleep != nil && sleep.StoppedOwner != "":
		return sleep.StoppedOwner == owner
	}
	return kindBelow == controller.Kind
}

// KindBelow returns the kind of the set's controller if the owner is above it, else "".
func KindBelow(set *appsv1.StatefulSet, owner types.UID) string {
	if controller := statefulset.Controller(set); controller != nil && controller.UID != owner {
		return controller.Kind
	}
	return ""
}
