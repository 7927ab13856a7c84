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

// annotationsLimit is more than the kubelet can write: annotations have up to 256 KiB, and quoting needs at most four
// bytes per byte.
const annotationsLimit = 2 << 20

// waitEnd says how the annotations ended the wait.
type waitEnd struct {
	signal *moverreport.Signal // nil if the lease is lost
}

// watch reads the annotations until there is a signal or the lease is lost. It returns nil if the context ends first.
func watch(ctx context.Context, o Options) *waitEnd {
	l := lease{last: time.Now(), length: o.Lease}
	warned := ""
	for {
		in, err := readInstructions(o.Annotations)
		if in.Signal != nil {
			return &waitEnd{in.Signal}
		}
		if l.isLost(time.Now(), in.Lease) {
			return &waitEnd{}
		}
		if err != nil && err.Error() != warned {
			warned = err.Error()
			o.Warn(warned)
		}
		if sleep(ctx, o.Poll) != nil {
			return nil
		}
	}
}

// readInstructions returns the instructions that can be read, and an error for the others.
func readInstructions(path string) (moverreport.Instructions, error) {
	f, err := os.Open(path)
	if err != nil {
		return moverreport.Instructions{}, err
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, annotationsLimit))
	if err != nil {
		return moverreport.Instructions{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return moverreport.ParseInstructions(text)
}

// lease is lost if its value does not change for its length. Values are only compared, never parsed: the time comes from
// the clock of this process.
type lease struct {
	value  string
	last   time.Time // when the value changed
	length time.Duration
}

// isLost takes the value that was read now. An empty or unreadable value is no renewal.
func (l *lease) isLost(now time.Time, value string) bool {
	if value != "" && value != l.value {
		l.value, l.last = value, now
	}
	return now.Sub(l.last) >= l.length
}
