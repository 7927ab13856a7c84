// Package progress tells how far the resize or rollback of a StatefulSet is, and why it waits, from the record and the live objects.
// It is pure.
package progress

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Version is the version of the documents that this code makes. Fields are added without another one.
const Version = 1

// Document is what kubectl drydock status -o json or yaml prints. Bytes and seconds are whole numbers. An absent field is empty.
type Document struct {
	Version   int          `json:"version"`
	Namespace string       `json:"namespace"`
	Set       string       `json:"set"`
	Kind      api.Kind     `json:"kind,omitempty"`
	Operation string       `json:"operation,omitempty"`
	Request   string       `json:"request,omitempty"`
	Phase     api.Phase    `json:"phase,omitempty"`
	Strategy  api.Strategy `json:"strategy,omitempty"`
	Started   *metav1.Time `json:"started,omitempty"`
	Finished  *metav1.Time `json:"finished,omitempty"`
	// Deadline is when the present phase is given up.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   api.Reason   `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	// By is the function that moves the operation on; empty when it has ended.
	By api.Function `json:"by,omitempty"`
	// Waits says why the operation as a whole waits. After its end, it names pods that are still held, and says why. Why a member waits is in
	// Members.
	Waits []string `json:"waits,omitempty"`
	// Growing are the claims that grow, or get another VolumeAttributesClass, on their volumes.
	Growing []Growth `json:"growing,omitempty"`
	// Members are those whose claims get other volumes, the highest ordinal first.
	Members []Member `json:"members,omitempty"`
	// GrowthByUsage has the latest requests of grow-volumes and its Warnings; nil if the set does not grow by usage.
	GrowthByUsage *api.Growth `json:"growthByUsage,omitempty"`
}

// Growth is a claim that grows, or gets another VolumeAttributesClass, on its volume.
type Growth struct {
	Claim string            `json:"claim"`
	From  resource.Quantity `json:"from"`
	To    resource.Quantity `json:"to"`
	// Attributes is the VolumeAttributesClass that the volume gets; absent if that stays as it is.
	Attributes *string `json:"attributes,omitempty"`
	Done       bool    `json:"done"`
}

// Member is one ordinal whose claims get other volumes.
type Member struct {
	Ordinal int             `json:"ordinal"`
	Phase   api.MemberPhase `json:"phase"`
	Claims  []Claim         `json:"claims"`
	// Copied and Bytes count the data of the member's claims. Both are 0 before the first pass has reported.
	Copied int64 `json:"copiedBytes"`
	Bytes  int64 `json:"bytes"`
	// Forecast is how long the final pass will take, in seconds, as the mover last measured; 0 if it has not.
	Forecast float64 `json:"forecastSeconds,omitempty"`
	// Down is for how many seconds the member is, or was, stopped: until its replacement was ready.
	Down *int64 `json:"downSeconds,omitempty"`
	// Waits says why the member waits; empty if it does not.
	Waits string `json:"waits,omitempty"`
}

// Claim is what becomes of a claim.
type Claim struct {
	Name       string            `json:"name"`
	Template   string            `json:"template"`
	From       resource.Quantity `json:"from"`
	To         resource.Quantity `json:"to"`
	Class      string            `json:"class,omitempty"`
	Attributes *string           `json:"attributes,omitempty"`
	OldVolume  string            `json:"oldVolume"`
	NewVolume  string            `json:"newVolume,omitempty"`
	Warnings   []string          `json:"warnings,omitempty"`
}
