//go:build linux

package mover

import (
	"context"
	"os"
	"testing"
)

// TestLateMoverLeavesFinishedTargetAlone: a mover's node loses its network, and the garbage collector of pods declares the pod Failed. The
// Job, or backup, makes another mover, which completes the copy. The member starts on it. Then the node's network comes back: the first
// mover goes on with its pass, because nothing but the end of its process stops a first pass. The target is live now.
func TestLateMoverLeavesFinishedTargetAlone(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "ledger", "z"} {
		write(t, src+"/"+name, "old contents of "+name)
	}
	must(t, os.Mkdir(src+"/wal", 0o755))
	o := Options{Source: src, Target: dst, Workers: 1, Token: operation, Pass: PassFirst, OwnOnly: true}

	hangs, network := make(chan struct{}), make(chan struct{})
	late := o
	late.hooks.source = func(_, path string) error {
		if path == "a" { // the server does not answer
			close(hangs)
			<-network
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() { _, err := Copy(context.Background(), late); ended <- err }()
	<-hangs

	second := o
	if _, err := Copy(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	second.Pass = PassFinal
	r, err := Copy(context.Background(), second)
	if err != nil || r.Digest == "" {
		t.Fatalf("%+v %v", r, err)
	}

	write(t, dst+"/ledger", "what the member has written since") // the member runs on its new volume
	must(t, os.Chmod(dst+"/wal", 0o755))
	close(network)
	err = <-ended
	if have, rerr := os.ReadFile(dst + "/ledger"); rerr != nil || string(have) != "what the member has written since" {
		t.Errorf("the first mover ended with %v, and the live file is now %q (%v)", err, have, rerr)
	}
}
