// Package resources builds the objects that Drydock creates. The builders are pure; every name derives from the
// operation, so that whoever tries again finds what an earlier try has made.
package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// OperationID names an attempt at a request for the StatefulSet with the UID: 12 hexadecimal digits.
func OperationID(uid types.UID, request string, attempt int) string {
	return digest(12, string(uid), request, fmt.Sprint(attempt))
}

// JournalName is the name of the operation's ControllerRevision.
func JournalName(operation string) string { return "drydock-" + operation }

// SleepRecordName is the name of the ControllerRevision that records the sleep.
func SleepRecordName(operation string) string { return "drydock-" + operation + "-sleep" }

// OwnerRecordName is the name of the ControllerRevision that records that the operation pauses the owner with the UID.
func OwnerRecordName(operation string, owner types.UID) string {
	return fmt.Sprintf("drydock-%s-owner-%s", operation, digest(8, string(owner)))
}

// CopyName is the name of the temporary claim and of the Job that copy a claim in a round. It is short whatever the
// claim's length: Job names become label values of at most 63 characters.
func CopyName(operation, claim string, round int) string {
	return fmt.Sprintf("drydock-%s-%s-%d", operation, digest(8, claim), round)
}

// IsCopyName reports whether the name is one that CopyName makes for the operation.
func IsCopyName(operation, name string) bool {
	return strings.HasPrefix(name, "drydock-"+operation+"-")
}

// digest is length hexadecimal digits over the parts. Parts cannot run into each other.
func digest(length int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:length]
}
