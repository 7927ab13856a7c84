//go:build linux

package membercopy

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"drydock.dev/shared/moverreport"
)

// annotationsLimit is more than the kubelet can write: annotations have up to 256 KiB, and quoting makes each byte four at most.
const annotationsLimit = 2 << 20

// order is how the wait ends.
type order struct {
	signal *moverreport.Signal // nil: the lease is lost
}

// watch reads the annotations until there is a signal, the lease is lost or the context ends. Then it returns nil.
func watch(ctx context.Context, o Options) *order {
	l := lease{last: time.Now(), length: o.Lease}
	told := ""
	for {
		in, err := readInstructions(o.Annotations)
		if in.Signal != nil {
			return &order{in.Signal}
		}
		if l.isLost(time.Now(), in.Lease) {
			return &order{}
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			o.Warn(told)
		}
		if sleep(ctx, o.Poll) != nil {
			return nil
		}
	}
}

// readInstructions returns what can be read.
func readInstructions(path string) (moverreport.Instructions, error) {
	f, err := os.Open(path)
	if err != nil {
		return moverreport.Instructions{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(f, annotationsLimit))
	if err != nil {
		return moverreport.Instructions{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return moverreport.ParseInstructions(text)
}

// lease is lost if its value does not change for its length. Values are compared only: the clock is this process's own.
type lease struct {
	value  string
	last   time.Time // when the value changed
	length time.Duration
}

// isLost takes a value that was read now. No value, or one that cannot be read, is no renewal.
func (l *lease) isLost(now time.Time, value string) bool {
	if value != "" && value != l.value {
		l.value, l.last = value, now
	}
	return now.Sub(l.last) >= l.length
}
