package doctor

// Level says how serious a finding is.
type Level string

// The levels of findings. Only a Problem fails the command.
const (
	OK Level = "ok"
	// Note: an optional part is missing, or a thing deserves attention. Operations work.
	Note Level = "note"
	// Unknown: the user may not read the facts, or they do not show the state.
	Unknown Level = "unknown"
	Problem Level = "problem"
)

// Finding is the result of a check.
type Finding struct {
	Subject string `json:"subject"`
	Level   Level  `json:"level"`
	State   string `json:"state"`
	// Remedy is the command or the action that improves the state. It is empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Document is the output of kubectl drydock doctor -o json or -o yaml.
type Document struct {
	Version  int       `json:"version"`
	Findings []Finding `json:"findings"`
}

// Problems returns the subjects of the findings that are problems.
func Problems(findings []Finding) []string {
	var subjects []string
	for _, f := range findings {
		if f.Level == Problem {
			subjects = append(subjects, f.Subject)
		}
	}
	return subjects
}
