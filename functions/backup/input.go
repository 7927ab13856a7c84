package backup

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/world"
)

// Input is everything that Decide considers.
type Input struct {
	*world.Observed
	Settings   api.Settings
	RootMovers bool
	// Options are the user's options for movers. OptionsErr is set if they cannot be read.
	Options    resources.MoverOptions
	OptionsErr error
	// Progress is the latest progress of running movers, by the ordinal of their member. Moved is its time.
	Progress map[int]moverreport.Progress
	Moved    map[int]time.Time
	// Warnings are the latest Warning Events about Jobs without a pod and pods that do not start, by the object's name.
	Warnings map[string]Warning
	// Unclaimed are the cluster's volumes without a claim. They are read only before a temporary claim is created.
	Unclaimed []*corev1.PersistentVolume
	// Rejected is why the API server rejected a write of this event for good. It is empty if it did not.
	Rejected string
}

// Warning is the content of a Kubernetes Event of type Warning.
type Warning struct {
	Reason, Message string
	At              time.Time
}
