package mover

// Exit codes of a copy. They are a contract with whoever runs it; exitTable says what each means.
const (
	CodeOK            = 0
	CodeIO            = 1
	CodeUsage         = 2
	CodeSourceChanged = 3
	CodeNoSpace       = 4
	CodeMismatch      = 5
	CodeNotFaithful   = 6
	CodeInterrupted   = 130 // 128 + SIGINT
	CodeKilled        = 137 // 128 + SIGKILL: never returned by us, seen by whoever watches the process
	CodeTerminated    = 143 // 128 + SIGTERM
)

// exit is a row of the table of exit codes.
type exit struct {
	code    int
	retry   bool // does running the same copy again, unchanged, make sense
	meaning string
}

// exitTable is the documentation of the exit codes, printed by `drydock copy -h`.
var exitTable = []exit{
	{CodeOK, false, "the target is a whole, flushed and (unless switched off) verified copy; after a warm pass, ready for the final one"},
	{CodeIO, true, "reading or writing failed; another try resumes and may succeed"},
	{CodeUsage, false, "the arguments are wrong, or source and target are not two separate directories"},
	{CodeSourceChanged, true, "the source was written to while it was copied; stop the writer, then try again"},
	{CodeNoSpace, false, "the target has no space, no inodes or no quota left; it has to be larger"},
	{CodeMismatch, true, "the target did not read back what was written; the files concerned are copied again by the next try"},
	{CodeNotFaithful, false, "something cannot be reproduced with this process's rights or on this target (owner, attribute, device, unreadable file)"},
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

// Retryable says whether running the same copy again, unchanged, makes sense. Codes that are not ours (a crash of the
// process or of its node) are: a copy can always be resumed.
func Retryable(code int) bool {
	for _, row := range exitTable {
		if row.code == code {
			return row.retry
		}
	}
	return true
}

// Explain says in a sentence fragment what an exit code means.
func Explain(code int) string {
	for _, row := range exitTable {
		if row.code == code {
			return row.meaning
		}
	}
	return "the copy ended in a way that is not its own; another try resumes"
}
