package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// operationIDs are what OperationID returns.
var operationIDs = regexp.MustCompile(`^[0-9a-f]{12}$`)

// digests are how names render the digest of a claim or an owner.
var digests = regexp.MustCompile(`^[0-9a-f]{8}$`)

// rounds are how CopyName renders a round.
var rounds = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// OperationID returns the id of an attempt at a request for the StatefulSet with the UID: 12 hexadecimal digits.
func OperationID(uid types.UID, request string, attempt int) string {
	return digest(12, string(uid), request, fmt.Sprint(attempt))
}

// IsOperationID reports whether the text has the form of an OperationID.
func IsOperationID(text string) bool { return operationIDs.MatchString(text) }

// RollbackRequest returns the request from which OperationID derives the id of a rollback of the operation.
func RollbackRequest(operation string) string { return "rollback " + operation }

// HasIDOf reports whether the resize or rollback has the id that Drydock derives for it on the StatefulSet with the UID. A document
// with any other id was not written by Drydock for this set.
func (s *Resize) HasIDOf(uid types.UID) bool {
	request := s.Request
	if s.RollsBack != "" {
		request = RollbackRequest(s.RollsBack)
	}
	return s.Operation == OperationID(uid, request, s.Attempt)
}

// JournalName returns the name of the operation's ControllerRevision.
func JournalName(operation string) string { return "drydock-" + operation }

// SleepRecordName returns the name of the ControllerRevision that records the sleep.
func SleepRecordName(operation string) string { return JournalName(operation) + "-sleep" }

// OwnerRecordName returns the name of the ControllerRevision that records that the operation pauses the owner with the UID.
func OwnerRecordName(operation string, owner types.UID) string {
	return ownerPrefix(operation) + digest(8, string(owner))
}

// isOwnerRecordName reports whether the name is one that OwnerRecordName returns for the operation and some owner.
func isOwnerRecordName(operation, name string) bool {
	owner, found := strings.CutPrefix(name, ownerPrefix(operation))
	return found && digests.MatchString(owner)
}

func ownerPrefix(operation string) string { return JournalName(operation) + "-owner-" }

// CopyName returns the name of the temporary claim and of the Job that copy a claim in a round. It is short whatever the
// claim's length: Job names become label values of at most 63 characters.
func CopyName(operation, claim string, round int) string {
	return fmt.Sprintf("%s%d", copyPrefix(operation, claim), round)
}

// IsCopyName reports whether the name is one that CopyName returns for the operation and the claim, in any round.
func IsCopyName(operation, claim, name string) bool {
	round, found := strings.CutPrefix(name, copyPrefix(operation, claim))
	return found && rounds.MatchString(round)
}

func copyPrefix(operation, claim string) string {
	return fmt.Sprintf("drydock-%s-%s-", operation, digest(8, claim))
}

// digest is length hexadecimal digits over the parts. Parts cannot run into each other.
func digest(length int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:length]
}
