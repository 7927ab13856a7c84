package events

// Kinds that the event source watches.
const (
	KindStatefulSet = "StatefulSet"
	KindClaim       = "PersistentVolumeClaim"
	KindJob         = "Job"
	KindPod         = "Pod"
	KindScaler      = "Scaler"
)

// Object names the object of an event.
type Object struct{ Kind, Namespace, Name string }

// places maps each kind to its apiVersion and plural in the API.
var places = map[string][2]string{
	KindStatefulSet: {"apps/v1", "statefulsets"},
	KindClaim:       {"v1", "persistentvolumeclaims"},
	KindJob:         {"batch/v1", "jobs"},
	KindPod:         {"v1", "pods"},
	KindScaler:      {"drydock.dev/v1alpha1", "scalers"},
}

// Watched reports whether the event source watches objects of this kind.
func (o Object) Watched() bool {
	_, known := places[o.Kind]
	return known
}

// Path returns the object's API path as ApiServerSource writes it into an event's subject. It begins with /apis even if the API server uses
// /api (knative.dev/eventing pkg/adapter/apiserver/events).
func (o Object) Path() string {
	place := places[o.Kind]
	return "/apis/" + place[0] + "/namespaces/" + o.Namespace + "/" + place[1] + "/" + o.Name
}

// URLPath returns the path of the object at the API server.
func (o Object) URLPath() string {
	if places[o.Kind][0] == "v1" {
		return "/api" + o.Path()[len("/apis"):]
	}
	return o.Path()
}
