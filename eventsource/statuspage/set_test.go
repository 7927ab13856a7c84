package statuspage

import (
	"testing"
	"time"

	"drydock.dev/shared/operation"
	"drydock.dev/shared/progress"
	"drydock.dev/test/kit/build"
)

// TestAgesAreThoseOfTheCommand: kubectl drydock list writes 97s, too.
func TestAgesAreThoseOfTheCommand(t *testing.T) {
	for age, want := range map[time.Duration]string{-time.Second: "0s ago", 97 * time.Second: "97s ago", 275 * time.Second: "4m ago"} {
		if got := past(operation.Moment(build.Now.Add(-age)), build.Now).Words; got != want || got != progress.Age(age)+" ago" {
			t.Errorf("%s: %q, want %q", age, got, want)
		}
	}
}

// TestCopiedBytesAreThoseOfTheWholeCopy: a user who reads only the bytes of the final pass fears that the rest is lost.
func TestCopiedBytesAreThoseOfTheWholeCopy(t *testing.T) {
	m := memberOf("web", &progress.Member{Copied: 40 << 20, Bytes: 40 << 20, FinalPassBytes: 2560})
	if m.Copied != "40 MiB (final pass 2.5 KiB)" || m.Percent != 100 {
		t.Errorf("%q, %d percent", m.Copied, m.Percent)
	}
}
