package moverreport

// Exit codes of a copy. Their meaning never changes. exitTable describes them.
const (
	CodeOK             = 0
	CodeIO             = 1
	CodeUsage          = 2
	CodeSourceChanged  = 3
	CodeNoSpace        = 4
	CodeMismatch       = 5
	CodeNotFaithful    = 6
	CodeTargetNotEmpty = 7
	CodeNotConverged   = 8
	CodeLeaseLost      = 9
	CodeInterrupted    = 130 // 128 + SIGINT
	CodeKilled         = 137 // 128 + SIGKILL: reported by the kubelet, never returned by the mover
	CodeTerminated     = 143 // 128 + SIGTERM
)

// exit is a row of the table of exit codes.
type exit struct {
	code    int
	retry   bool // the same copy, run again unchanged, may succeed
	meaning string
}

// exitTable documents the exit codes. `drydock copy -h` prints it.
var exitTable = []exit{
	{CodeOK, false, "the target is a complete, flushed and (unless switched off) verified copy; " +
		"after a first pass, it is ready for the final pass"},
	{CodeIO, true, "reading or writing failed; a retry resumes and may succeed"},
	{CodeUsage, false, "the arguments are wrong, or source and target are not two separate directories"},
	{CodeSourceChanged, true, "the source was written to while it was copied; stop the writer, then try again"},
	{CodeNoSpace, false, "the target has no space, inodes or quota left; it must be larger"},
	{CodeMismatch, true, "the target did not return the data that was written; a retry copies these files again"},
	{CodeNotFaithful, false, "an entry cannot be reproduced with this process's rights or on this target (owner, attribute, device, " +
		"unreadable file)"},
	{CodeTargetNotEmpty, false, "the target holds data that this operation did not write; nothing was changed"},
	{CodeNotConverged, false, "the final pass would take too long, and further passes do not shorten it; nothing is wrong with the copy"},
	{CodeLeaseLost, false, "the functions did not renew the mover's lease; the mover ended to release the volumes from its node"},
	{CodeInterrupted, true, "interrupted by SIGINT; a retry resumes"},
	{CodeKilled, true, "killed, for example because it used too much memory; a retry resumes"},
	{CodeTerminated, true, "terminated by SIGTERM; a retry resumes"},
}

// Codes lists the documented exit codes in ascending order.
func Codes() []int {
	codes := make([]int, len(exitTable))
	for i, row := range exitTable {
		codes[i] = row.code
	}
	return codes
}

// FinalCodes lists, in ascending order, the exit codes of failures that a retry cannot resolve.
func FinalCodes() []int32 {
	var codes []int32
	for _, row := range exitTable {
		if row.code != CodeOK && !row.retry {
			codes = append(codes, int32(row.code)) // exit codes are below 256
		}
	}
	return codes
}

// Retryable reports whether the same copy, run again unchanged, may succeed. Unknown codes (a crash of the process or of
// its node) are retryable, because a copy can always be resumed.
func Retryable(code int) bool {
	for _, row := range exitTable {
		if row.code == code {
			return row.retry
		}
	}
	return true
}

// Explain returns a sentence fragment that describes an exit code.
func Explain(code int) string {
	for _, row := range exitTable {
		if row.code == code {
			return row.meaning
		}
	}
	return "unknown exit code; a retry resumes"
}
