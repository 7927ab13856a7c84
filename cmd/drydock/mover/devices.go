//go:build linux

package mover

import (
	"context"

	"drydock.dev/cmd/drydock/mover/device"
	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/tree"
)

// CopyDevice copies the contents of the block device Source to the beginning of the block device Target. It uses the
// options Source, Target, Workers, NoVerify, Pass and Progress. It writes only the blocks that differ, so a second pass
// is short. It does not touch or check a larger target behind the source's end. A first pass is not verified. Any error
// is an *Error. It is safe to repeat.
func CopyDevice(ctx context.Context, o Options) (Result, error) {
	m := progress.NewMeter(o.Progress, o.ProgressInterval)
	defer m.Close()
	d, err := device.Copy(ctx, device.Options{
		Source: o.Source, Target: o.Target, Workers: pool.Workers(o.Workers), Verify: !o.NoVerify && o.Pass != tree.PassFirst,
		Meter: m, Limit: o.Limit, Seams: &o.hooks,
	})
	r := Result{Bytes: d.Bytes, Total: d.Size, Verified: d.Verified, Pass: o.Pass, Figures: d.Figures}
	switch {
	case d.Bytes > 0:
		r.Files = 1
	case d.Complete:
		r.Skipped = 1
	}
	if e := fault.ToError(err, nil); e != nil {
		return r, e
	}
	return r, nil
}
