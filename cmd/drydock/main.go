// Command drydock is the image: a function, the data mover, or the caller of a hook.
//
//	drydock serve FUNCTION   answer CloudEvents over HTTP
//	drydock copy ...         copy a volume; runs in the mover's pods
//	drydock call ...         call the URL of a hook; runs in the hook's Job
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

const usage = `Usage:
  drydock serve FUNCTION   answer CloudEvents over HTTP; drydock serve -h lists functions and settings
  drydock copy ...         copy a volume; drydock copy -h lists its flags
  drydock call ...         call the URL of a hook; drydock call -h lists its flags
`

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "serve":
		return runServe(ctx, args[1:], stdout, stderr)
	case "copy":
		return runCopy(ctx, args[1:], stdout, stderr)
	case "call":
		return runCall(ctx, args[1:], stdout, stderr)
	case "-h", "--help", "help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "drydock: unknown command %q\n%s", command, usage)
	return exitUsage
}

// Exit codes of serve and call. copy has the codes of package moverreport.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// exitRefused is the exit code of a call whose answer rules out a retry.
const exitRefused = 3

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
