//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"

	"drydock.dev/shared/moverreport"
)

// runCopy reports that this build cannot copy: the data mover needs Linux file systems and system calls.
func runCopy(_ context.Context, _ []string, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, "drydock copy: copying needs Linux. Run it in a mover's pod.")
	return moverreport.CodeUsage
}
