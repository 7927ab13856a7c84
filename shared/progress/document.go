// Package progress computes the progress of a StatefulSet's resize or rollback, and why it waits, from the record and the live objects. It
// is pure.
package progress

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Document is the output of kubectl drydock status -o json or -o yaml. Bytes and seconds are whole numbers. An absent field is empty.
type Document struct {
	Version   int          `json:"version"`
	Namespace string       `json:"namespace"`
	Set       string       `json:"set"`
	Kind      api.Kind     `json:"kind,omitempty"`
	Operation string       `json:"operation,omitempty"`
	Request   string       `json:"request,omitempty"`
	Phase     api.Phase    `json:"phase,omitempty"`
	Strategy  api.Strategy `json:"strategy,omitempty"`
	// Withdrawn is true if the operation failed or was refused, and its request is no longer on the set.
	Withdrawn bool         `json:"withdrawn,omitempty"`
	Started   *metav1.Time `json:"started,omitempty"`
	Finished  *metav1.Time `json:"finished,omitempty"`
	// Deadline is when the present phase fails, unless it ends before.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   api.Reason   `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	// Function is the function that takes the next step of the operation. It is empty when the operation has ended.
	Function api.Function `json:"function,omitempty"`
	// Waits lists why the operation as a whole waits. After its end, it lists the pods that are still held, with the reasons. Reasons of
	// single members are in Members.
	Waits []string `json:"waits,omitempty"`
	// Unread says why the reasons to wait are missing, if the user may not read the objects around the set.
	Unread string `json:"unread,omitempty"`
	// Growing are the claims that grow in place, or get another VolumeAttributesClass.
	Growing []Growth `json:"growing,omitempty"`
	// Members are the members whose claims get other volumes, the highest ordinal first.
	Members []Member `json:"members,omitempty"`
	// GrowthByUsage contains the latest requests of grow-volumes and its Warnings. It is nil if the set does not grow by usage.
	GrowthByUsage *api.Growth `json:"growthByUsage,omitempty"`
}

// Growth is a claim that grows in place, or gets another VolumeAttributesClass.
type Growth struct {
	Claim string            `json:"claim"`
	From  resource.Quantity `json:"from"`
	To    resource.Quantity `json:"to"`
	// Attributes is the new VolumeAttributesClass of the volume. It is absent if the class does not change.
	Attributes *string `json:"attributes,omitempty"`
	Done       bool    `json:"done"`
}

// Member is one ordinal whose claims get other volumes.
type Member struct {
	Ordinal int             `json:"ordinal"`
	Phase   api.MemberPhase `json:"phase"`
	Claims  []Claim         `json:"claims"`
	// Copied and Bytes are the copied and all bytes of the member's claims. Both are 0 until the first pass reports.
	Copied int64 `json:"copiedBytes"`
	Bytes  int64 `json:"bytes"`
	// FinalPassBytes are the bytes of Copied that the final pass wrote. They are 0 before its end.
	FinalPassBytes int64 `json:"finalPassBytes,omitempty"`
	// SizeUnknown is true while the mover has not begun a claim of the member, so Bytes lacks it. The time that is left is unknown then.
	SizeUnknown bool `json:"-"`
	// ReportedAt is when the running pass last reported Copied. It is nil between the passes.
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`
	// Rate is how many bytes are copied in a second. It is known after two reports during status --watch or --wait.
	Rate int64 `json:"bytesPerSecond,omitempty"`
	// SecondsLeft is how long the first pass still copies at this rate. It is nil if that is unknown.
	SecondsLeft *int64 `json:"secondsLeft,omitempty"`
	// ForecastSeconds is the mover's latest forecast for the final pass, in seconds. It is 0 without a forecast.
	ForecastSeconds float64 `json:"forecastSeconds,omitempty"`
	// DownSeconds is how many seconds the member is or was stopped, until its replacement was ready. It is nil if that is unknown.
	DownSeconds *int64 `json:"downSeconds,omitempty"`
	// Waits is why the member waits. It is empty if the member does not wait.
	Waits string `json:"waits,omitempty"`
}

// Claim is a claim of a member with its old and new volume.
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
