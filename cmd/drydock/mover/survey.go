//go:build linux

package mover

import (
	"context"
	"errors"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/tree"
)

var errNoFirstPass = errors.New("the last pass over these trees did not succeed")

// Survey scans the source and returns the figures of the last first pass, with Remaining as it is now. It reads no
// contents and does not access the target. It uses the options Source, Workers and Progress. Any error is an *Error.
func Survey(ctx context.Context, o Options, last Result) (forecast.Figures, error) {
	if last.state == nil {
		return forecast.Figures{}, fault.UsageError(errNoFirstPass)
	}
	src, err := fsys.OpenRoot(o.Source, fault.Source)
	if err != nil {
		return forecast.Figures{}, fault.ToError(fault.RootError(err), nil)
	}
	defer src.Close()
	m := progress.NewMeter(o.Progress, o.ProgressInterval)
	defer m.Close()
	p := fault.Problems{SourceActive: true}
	t, err := tree.Scan(ctx, src, pool.Workers(o.Workers), m, &p)
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		return forecast.Figures{}, fault.ToError(err, nil)
	}
	f := last.Figures
	f.Remaining = last.state.Remaining(t)
	return f, nil
}
