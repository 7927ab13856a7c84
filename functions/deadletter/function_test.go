package deadletter

import (
	"log/slog"
	"testing"
)

func TestEventWithoutSetIsAccepted(t *testing.T) {
	f := New(nil, slog.New(slog.DiscardHandler))
	if answer, err := f.Handle(t.Context(), someEvent("com.example.other")); answer != nil || err != nil {
		t.Errorf("answer %v, error %v: a dead letter that fails would be lost", answer, err)
	}
}
