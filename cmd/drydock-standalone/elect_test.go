package main

import (
	"context"
	"errors"
	"testing"
)

// TestLostLeaseIsNoResult: a lost lease ends lead without an error. The process must still end with one.
func TestLostLeaseIsNoResult(t *testing.T) {
	failed := errors.New("cannot listen")
	untilStopped := func(ctx context.Context) error { <-ctx.Done(); return nil }
	over, end := context.WithCancel(t.Context())
	end()
	for name, row := range map[string]struct {
		ctx, held context.Context
		lead      func(context.Context) error
		lost      bool
		err       error
	}{
		"the lease is lost":  {t.Context(), over, untilStopped, true, nil},
		"the process ends":   {over, t.Context(), untilStopped, false, nil},
		"lead ends by error": {t.Context(), t.Context(), func(context.Context) error { return failed }, false, failed},
	} {
		t.Run(name, func(t *testing.T) {
			if lost, err := leadWhileHeld(row.ctx, row.held, row.lead); lost != row.lost || !errors.Is(err, row.err) {
				t.Errorf("lost %t, %v; want lost %t, %v", lost, err, row.lost, row.err)
			}
		})
	}
}

// TestElectionResult: the result of lead precedes the release, so a result that comes late belongs to a lost lease.
func TestElectionResult(t *testing.T) {
	failed := errors.New("cannot listen")
	over, end := context.WithCancel(t.Context())
	end()
	for name, row := range map[string]struct {
		electing context.Context
		result   []error
		want     error
	}{
		"lead has ended":         {over, []error{nil}, nil},
		"lead has failed":        {over, []error{failed}, failed},
		"lost while lead works":  {t.Context(), nil, errLeaseLost},
		"lost as lead has ended": {t.Context(), []error{failed}, failed},
		"another replica led":    {over, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result := make(chan error, 1)
			for _, err := range row.result {
				result <- err
			}
			if got := electionResult(row.electing, result); !errors.Is(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
