package main

import (
	"fmt"
	"io"
	"os"
)

// writeReport writes a report to a file, unless the path is empty. A report that cannot be written does not fail the
// command, because the exit code has the result.
func writeReport(path string, report []byte, stderr io.Writer) {
	if path == "" {
		return
	}
	if err := os.WriteFile(path, report, 0o644); err != nil {
		fmt.Fprintln(stderr, "drydock: writing the report:", err)
	}
}
