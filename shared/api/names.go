package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// operationIDs matches the results of OperationID.
var operationIDs = regexp.MustCompile(`^[0-9a-f]{12}$`)

// digests matches the digest of a claim or an owner in a name.
var digests = regexp.MustCompile(`^[0-9a-f]{8}$`)

// attempts matches the attempt in a name.
var attempts = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// OperationID returns the id of an attempt to carry out the request on the StatefulSet with the UID: 12 hexadecimal digits.
func OperationID(uid types.UID, request string, attempt int) string {
	return digest(12, string(uid), request, fmt.Sprint(attempt))
}

// IsOperationID reports whether the text has the form of an OperationID.
func IsOperationID(text string) bool { return operationIDs.MatchString(text) }

// RollbackRequest returns the request of a rollback, as OperationID expects it.
func RollbackRequest(operation string) string { return "rollback " + operation }

// GrowthRequest returns the request of a growth by usage to the floors, as OperationID expects it.
func GrowthRequest(growTo string) string { return "grow to " + growTo }

// JournalName returns the name of the operation's ControllerRevision.
func JournalName(operation string) string { return "drydock-" + operation }

// StopRecordName returns the name of the ControllerRevision that records the stop.
func StopRecordName(operation string) string { return JournalName(operation) + "-stop" }

// OwnerRecordName returns the name of the ControllerRevision which records that the operation pauses the owner with the UID.
func OwnerRecordName(operation string, owner types.UID) string {
	return ownerPrefix(operation) + digest(8, string(owner))
}

// isOwnerRecordName reports whether the name is the OwnerRecordName of the operation and any owner.
func isOwnerRecordName(operation, name string) bool {
	owner, found := strings.CutPrefix(name, ownerPrefix(operation))
	return found && digests.MatchString(owner)
}

func ownerPrefix(operation string) string { return JournalName(operation) + "-owner-" }

// TargetName returns the name of the temporary claim for a copy of the claim. Copies is the number of discarded copies. The name is short
// even if the claim's name is long.
func TargetName(operation, claim string, copies int) string {
	return fmt.Sprintf("%s%d", targetPrefix(operation, claim), copies)
}

// IsTargetName reports whether the name is a TargetName of the operation and the claim.
func IsTargetName(operation, claim, name string) bool {
	copies, found := strings.CutPrefix(name, targetPrefix(operation, claim))
	return found && attempts.MatchString(copies)
}

func targetPrefix(operation, claim string) string {
	return fmt.Sprintf("drydock-%s-%s-", operation, digest(8, claim))
}

// MoverName returns the name of the Job that copies the claims of a member, in the attempt. It is short, because Job names become label
// values of at most 63 characters.
func MoverName(operation string, ordinal, attempt int) string {
	return fmt.Sprintf("%s%d", moverPrefix(operation, ordinal), attempt)
}

// IsMoverName reports whether the name is a MoverName of the operation and the member, in any attempt.
func IsMoverName(operation string, ordinal int, name string) bool {
	return MoverNames(operation, ordinal)(name)
}

// MoverNames returns a function that calls IsMoverName for many names.
func MoverNames(operation string, ordinal int) func(name string) bool {
	prefix := moverPrefix(operation, ordinal)
	return func(name string) bool {
		attempt, found := strings.CutPrefix(name, prefix)
		return found && attempts.MatchString(attempt)
	}
}

func moverPrefix(operation string, ordinal int) string {
	return fmt.Sprintf("drydock-%s-%d-", operation, ordinal)
}

// HookName returns the name of the Job that runs the member's hook, "before" or "after", in the attempt.
func HookName(operation, hook string, ordinal, attempt int) string {
	return fmt.Sprintf("drydock-%s-%s-%d-%d", operation, hook, ordinal, attempt)
}

// ScaleHookName returns the name of the Job that runs a hook of the scaling: "pre", "post" or "onfailure". Each try of a scaling is a new
// operation, so each Job has a different name.
func ScaleHookName(operation, hook string) string {
	return fmt.Sprintf("drydock-%s-%s-scaling", operation, strings.ToLower(hook))
}

// digest returns that many hexadecimal digits over the parts. The length of each part is included, so that parts cannot be shifted.
func digest(length int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:length]
}

// Digest8 returns a digest of the text: 8 hexadecimal digits.
func Digest8(text string) string { return digest(8, text) }
