//go:build linux

package membercopy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drydock.dev/shared/moverreport"
)

const pinLease = time.Minute

func pinAt(annotations string) Options {
	return Options{Annotations: annotations, Lease: pinLease, Poll: time.Second}
}

func TestPinEndsWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		code := Pin(t.Context(), pinAt(filepath.Join(t.TempDir(), "annotations"))) // the file does not exist
		if held := time.Since(began); code != moverreport.CodeLeaseLost || held < pinLease || held > pinLease+2*time.Second {
			t.Errorf("the pin ended with %d after %s", code, held)
		}
	})
}

func TestPinRunsWhileLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := pinAt(filepath.Join(t.TempDir(), "annotations"))
		ended := make(chan int, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		signal := moverreport.Signal{Hold: "uid-1", Attempt: 1} // the signal for the final pass stays in the annotations
		renew := func(n int) {
			text := fmt.Sprintf("%s=%q\n%s=\"%d\"\n", moverreport.SignalAnnotation, signal.Encode(), moverreport.LeaseAnnotation, n)
			if err := os.WriteFile(o.Annotations, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		renew(0)
		go func() { ended <- Pin(ctx, o) }()
		for n := range 5 {
			time.Sleep(pinLease * 9 / 10)
			select {
			case code := <-ended:
				t.Fatalf("the pin ended with %d", code)
			default:
				renew(n + 1)
			}
		}
		stop()
		if code := <-ended; code == moverreport.CodeOK || code == moverreport.CodeLeaseLost {
			t.Errorf("after SIGTERM the pin ended with %d", code)
		}
	})
}
