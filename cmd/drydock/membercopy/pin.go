//go:build linux

package membercopy

import (
	"context"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// Pin waits until the context ends or the lease is lost, and returns the exit code. It touches no volume. The
// node keeps the volumes of a pod attached while a container of the pod runs.
func Pin(ctx context.Context, o Options) int {
	o = o.withDefaults()
	l := lease{last: time.Now(), length: o.Lease}
	for {
		in, _ := readInstructions(o.Annotations) // an unreadable lease counts as not renewed
		if l.isLost(time.Now(), in.Lease) {
			return moverreport.CodeLeaseLost
		}
		if err := sleep(ctx, o.Poll); err != nil {
			return mover.NewReport(mover.Result{}, err, 0).Code
		}
	}
}
