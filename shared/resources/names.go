// Package resources builds the objects that Drydock creates. The builders are pure; every name derives from the
// operation, so that whoever tries again finds what an earlier try has made.
package resources

import (
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// OperationID returns api.OperationID.
func OperationID(uid types.UID, request string, attempt int) string {
	return api.OperationID(uid, request, attempt)
}

// JournalName returns api.JournalName.
func JournalName(operation string) string { return api.JournalName(operation) }

// SleepRecordName returns api.SleepRecordName.
func SleepRecordName(operation string) string { return api.SleepRecordName(operation) }

// OwnerRecordName returns api.OwnerRecordName.
func OwnerRecordName(operation string, owner types.UID) string {
	return api.OwnerRecordName(operation, owner)
}

// CopyName returns api.CopyName.
func CopyName(operation, claim string, round int) string {
	return api.CopyName(operation, claim, round)
}
