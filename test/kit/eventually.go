package kit

import (
	"cmp"
	"context"
	"time"
)

// Eventually calls check until it returns an empty string. After the time limit it fails the test with the latest text
// of check.
func (w *World) Eventually(what string, check func() string) {
	w.T.Helper()
	deadline, longest := time.Now().Add(cmp.Or(w.Patience, 3*time.Minute)), 100*time.Millisecond
	if w.changed != nil {
		longest = 400 * time.Millisecond // changes wake it
	}
	for pause := 20 * time.Millisecond; ; pause = min(pause*5/4, longest) {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			w.T.Fatalf("waited for: %s; still: %s\n%s", what, problem, w.dump())
		}
		await(context.Background(), w.changed, pause)
	}
}

// Throughout calls check again and again for the duration, and after each change. It fails the test as soon as check returns a text.
func (w *World) Throughout(what string, d time.Duration, check func() string) {
	w.T.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); await(context.Background(), w.changed, 500*time.Millisecond) {
		if problem := check(); problem != "" {
			w.T.Fatalf("it is no longer so that %s: %s\n%s", what, problem, w.dump())
		}
	}
}
