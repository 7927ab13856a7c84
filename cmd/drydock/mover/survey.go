//go:build linux

package mover

import (
	"context"
	"errors"
)

var errNoFirstPass = errors.New("the last pass over these trees did not succeed")

// Survey scans the source and returns the figures of the last first pass, with Remaining as it is now. It reads no
// contents and does not access the target. It uses the options Source, Workers and Progress. Any error is an *Error.
func Survey(ctx context.Context, o Options, last Result) (Figures, error) {
	if last.state == nil {
		return Figures{}, usageError(errNoFirstPass)
	}
	src, err := openRoot(o.Source, source)
	if err != nil {
		return Figures{}, toError(rootError(err), nil)
	}
	defer src.close()
	m := newMeter(o.Progress, o.ProgressInterval)
	defer m.close()
	p := problems{sourceActive: true}
	t, err := scan(ctx, src, workerCount(o.Workers), m, &p)
	if err == nil {
		err = p.err()
	}
	if err != nil {
		return Figures{}, toError(err, nil)
	}
	f := last.Figures
	f.Remaining = last.state.remaining(t)
	return f, nil
}
