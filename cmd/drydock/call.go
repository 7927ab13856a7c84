package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/hookurl"
)

// runCall is `drydock call` in a hook's pod. It posts the hook's facts until the answer is final. The Job sets the
// deadline.
func runCall(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, report, err := parseCall(args, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "drydock call:", err)
		writeReport(report, []byte(err.Error()), stderr)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, message := c.run(ctx)
	fmt.Fprintln(stdout, message)
	writeReport(report, []byte(message), stderr)
	return code
}

func parseCall(args []string, stdout, stderr io.Writer) (c call, report string, err error) {
	f := flag.NewFlagSet("drydock call", flag.ContinueOnError)
	f.SetOutput(stderr)
	address := f.String("url", "", "the URL to POST to")
	timeout := f.Duration("timeout", 10*time.Second, "how long one request may take")
	file := f.String("file", path.Join(api.HookDir, api.HookFile), "the `file` to send")
	f.StringVar(&report, "report", "", "also write the result to this `file`")
	if err := f.Parse(args); err != nil {
		return c, report, err
	}
	if f.NArg() > 0 || *timeout <= 0 {
		return c, report, errors.New("call takes only flags, and --timeout must be greater than 0")
	}
	c = call{client: newCaller(*timeout), log: stdout, sleep: sleep}
	if c.url, err = hookurl.Parse(*address); err != nil {
		return c, report, err
	}
	if c.body, err = os.ReadFile(*file); err != nil {
		return c, report, fmt.Errorf("reading the file to send: %w", err)
	}
	var facts api.HookFacts
	if err := json.Unmarshal(c.body, &facts); err != nil {
		return c, report, fmt.Errorf("reading the file to send: %w", err)
	}
	c.key = facts.Operation + "-" + facts.Hook
	return c, report, nil
}
