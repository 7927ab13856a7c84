//go:build linux && root

package mover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// TestMoreAttributeNamesThanTheKernelLists: xfs stores any number of extended attributes, and the kernel lists at most 64 KiB of names
// (E2BIG). No retry helps, and neither the node's nor the storage's logs say anything.
func TestMoreAttributeNamesThanTheKernelLists(t *testing.T) {
	src, dst := newVolume(t, 400, "mkfs.xfs", "-q", "-f"), newVolume(t, 400, "mkfs.xfs", "-q", "-f")
	writeFile(t, src.dir+"/tagged", "contents")
	for i := range 300 {
		must(t, unix.Setxattr(src.dir+"/tagged", fmt.Sprintf("user.%04d%s", i, strings.Repeat("n", 240)), []byte("v"), 0))
	}
	o := Options{Source: src.dir, Target: dst.dir, Workers: 1, Pass: tree.PassFirst, Token: operation, OwnOnly: true}
	_, err := Copy(context.Background(), o)
	e := (*fault.Error)(nil)
	if !errors.As(err, &e) || e.Code != moverreport.CodeNotFaithful {
		t.Errorf("%v", err)
	}
}
