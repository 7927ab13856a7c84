package main

import (
	"fmt"
	"io"
	"os"
)

// writeReport writes a report to a file, if there is to be one. Nothing fails because its report could not be written: the
// exit code says it all.
func writeReport(path string, report []byte, stderr io.Writer) {
	if path == "" {
		return
	}
	if err := os.WriteFile(path, report, 0o644); err != nil {
		fmt.Fprintln(stderr, "drydock: writing the report:", err)
	}
}
