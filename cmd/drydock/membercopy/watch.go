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

// annotationsLimit is the maximum number of bytes that are read from the file. The kubelet writes less: annotations have
// up to 256 KiB, and quoting turns a byte into at most four.
const annotationsLimit = 2 << 20

// waitEnd says why watch returned: a signal arrived, or the lease was lost.
type waitEnd struct {
	signal *moverreport.Signal // nil if the lease is lost
}

// watch polls the annotations until they have a signal or the lease is lost. It returns nil if the context ends first.
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

// readInstructions returns the instructions in the file of annotations. If some cannot be parsed, it returns the others
// and an error.
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

// lease tells the mover that a function still works on the operation. A function renews it by changing its value. It is
// lost if the value does not change for the length. The mover only compares values and uses its own clock, so a wrong
// clock elsewhere has no effect.
type lease struct {
	value  string
	last   time.Time // when the value changed
	length time.Duration
}

// isLost stores the value that was read now, and reports whether the lease is lost. An empty value does not renew it.
func (l *lease) isLost(now time.Time, value string) bool {
	if value != "" && value != l.value {
		l.value, l.last = value, now
	}
	return now.Sub(l.last) >= l.length
}

// sample is the result of one first pass: when it began, and the forecast of the final pass after it.
type sample struct {
	began    time.Time
	forecast time.Duration
}

// verdict says whether the first passes have converged, and whether there is another one.
type verdict int

const (
	converged    verdict = iota // the forecast is at most the longest stop
	repeatNow                   // the forecast has fallen: make another pass now
	repeatLater                 // the forecast has not fallen: make another pass after a pause
	notConverged                // the forecast has not fallen for several passes: the copy fails
)

const (
	fallFactor = 0.9 // a forecast has fallen if it is below this fraction of the best earlier one
	idlePasses = 2   // the verdict notConverged needs this number of passes without a fall
)

// assess returns the verdict on the passes so far. There is at least one. A file counts as unchanged only if it was
// not written for the time settled, so the forecast may fall merely because time passes. So assess returns notConverged only
// if the latest pass began more than that time after the best one.
func assess(samples []sample, maxStop, settled time.Duration) verdict {
	last := samples[len(samples)-1]
	if last.forecast <= maxStop {
		return converged
	}
	best := 0
	for i := range samples {
		if float64(samples[i].forecast) < fallFactor*float64(samples[best].forecast) {
			best = i
		}
	}
	switch without := len(samples) - 1 - best; {
	case without == 0:
		return repeatNow
	case without >= idlePasses && last.began.Sub(samples[best].began) > settled:
		return notConverged
	}
	return repeatLater
}
