package explain

import (
	"encoding/json"
	"testing"

	"drydock.dev/test/golden"
)

// TestEveryReasonIsExplained: the list of reasons is complete. Each reason and each alert has a sentence.
func TestEveryReasonIsExplained(t *testing.T) {
	names := Reasons()
	if len(names) < 50 {
		t.Fatalf("only %d reasons were found", len(names))
	}
	for _, name := range Names() {
		if e, ok := Find(name); !ok || e.Meaning == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestExplanations(t *testing.T) {
	file := golden.Open(t)
	for _, reason := range []string{
		"UpToDate", "unknownclass", "RuntimeUnsupported", "DeadlineExceeded", "CopyFailed", "nospace", "drydockmemberheldlong", "DrydockNoSweep",
	} {
		e, ok := Find(reason)
		if !ok {
			t.Errorf("%s is unknown", reason)
			continue
		}
		text, err := json.MarshalIndent(e, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file.Entry(t, reason, string(text))
	}
	if e, ok := Find("NoSuchReason"); ok {
		t.Errorf("%+v", e)
	}
}
