package cleanuppod

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/podend"
)

// Input holds everything that Decide needs: the observed objects, the time, the settings and the event.
type Input struct {
	Now  time.Time
	Name string
	Set  *appsv1.StatefulSet // nil if it does not exist
	// Claims holds the claims whose names belong to the set.
	Claims []*corev1.PersistentVolumeClaim
	// Pods holds the cleanup pods of a set of this name, pods with a replica's name, and pods that use one of the claims.
	Pods []*corev1.Pod
	// Kills has the Events about the ends of the cleanup pods whose success they decide.
	Kills podend.Kills
	// Revision is the ControllerRevision of the set's pods. It is read if the set is being deleted, and nil if it is gone.
	Revision *appsv1.ControllerRevision
	// Journal is true if a resize of the set has a journal, so that claims may be incomplete. It is read if the set is being deleted.
	Journal bool
	// PodRejected says why the API server would reject a pod of a new template. It is empty if it would accept the pod.
	PodRejected string
	// Doubt says why the API server would reject the pod only at present, for example because of a quota. Otherwise it is empty.
	Doubt string
	// Rejected says why the API server permanently rejected a write of this event. It is empty if it did not.
	Rejected string
	// NamespaceEnds is true if the write was rejected because the namespace is being deleted.
	NamespaceEnds bool
	// Retry is true if the event requests a retry.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent of an operation that starts now. It is empty when tracing is off.
	Trace string
}

// ordinals returns the set's ordinals.
func (in Input) ordinals() []cleanup.Ordinal {
	return cleanup.Ordinals(in.Set, in.Claims, in.Pods)
}
