package moverreport

// Exit codes of a copy. They never change their meaning; exitTable says what each means.
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
	CodeKilled         = 137 // 128 + SIGKILL: the mover never returns it, the kubelet reports it
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
	{CodeOK, false, "the target is a whole, flushed and (unless switched off) verified copy; after a warm pass, ready for the final one"},
	{CodeIO, true, "reading or writing failed; another try resumes and may succeed"},
	{CodeUsage, false, "the arguments are wrong, or source and target are not two separate directories"},
	{CodeSourceChanged, true, "the source was written to while it was copied; stop the writer, then try again"},
	{CodeNoSpace, false, "the target has no space, no inodes or no quota left; it has to be larger"},
	{CodeMismatch, true, "the target did not read back what was written; the files concerned are copied again by the next try"},
	{CodeNotFaithful, false, "something cannot be reproduced with this process's rights or on this target (owner, attribute, device, " +
		"unreadable file)"},
	{CodeTargetNotEmpty, false, "the target holds data that this operation did not write; nothing was changed"},
	{CodeNotConverged, false, "the final pass would take too long, and further passes do not shorten it; nothing is wrong with the copy"},
	{CodeLeaseLost, false, "the functions did not renew the mover's lease; the mover ended, so that its node does not keep the volumes"},
	{CodeInterrupted, true, "interrupted by SIGINT; another try resumes"},
	{CodeKilled, true, "killed, for example for using too much memory; another try resumes"},
	{CodeTerminated, true, "terminated by SIGTERM; another try resumes"},
}

// Codes lists the documented exit codes in ascending order.
func Codes() []int {
	codes := make([]int, len(exitTable))
	for i, row := range exitTable {
		codes[i] = row.code
	}
	return codes
}

// FinalCodes lists, in ascending order, the exit codes of failures that another try cannot mend.
func FinalCodes() []int32 {
	var codes []int32
	for _, row := range exitTable {
		if row.code != CodeOK && !row.retry {
			codes = append(codes, int32(row.code)) //nolint:gosec // exit codes are below 256
		}
	}
	return codes
}

// Retryable reports whether the same copy, run again unchanged, may succeed. Unknown codes (a crash of the process or of
// its node) are retryable: a copy can always be resumed.
func Retryable(code int) bool {
	for _, row := range exitTable {
		if row.code == code {
			return row.retry
		}
	}
	return true
}

// Explain returns a sentence fragment that says what an exit code means.
func Explain(code int) string {
	for _, row := range exitTable {
		if row.code == code {
			return row.meaning
		}
	}
	return "the copy ended in a way that is not its own; another try resumes"
}
