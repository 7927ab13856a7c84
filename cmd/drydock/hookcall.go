package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/hookurl"
	"drydock.dev/shared/operation"
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

// Limits on the time that a server can make a call wait, and on the size of an answer.
const (
	minWait     = time.Second
	defaultWait = 5 * time.Second // after 202 without Retry-After
	maxWait     = time.Minute
	maxBackoff  = 30 * time.Second
	maxBody     = 64 << 10
)

// call is a hook that is called by HTTP.
type call struct {
	url    *url.URL
	key    string // idempotency key, the same for each request of a hook
	body   []byte
	client *http.Client
	log    io.Writer
	sleep  func(context.Context, time.Duration)
}

// answer is the result of one request.
type answer struct {
	status int   // 0 if there was no answer
	err    error // why there was no answer
	after  time.Duration
}

// newCaller makes a client that goes to the URL and nowhere else: by no proxy, and behind no redirect.
func newCaller(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run repeats the request until the answer is final. It returns the exit code and a description of the last answer.
func (c call) run(ctx context.Context) (int, string) {
	failures := 0
	for {
		a := c.ask(ctx)
		message := c.describe(a)
		switch {
		case ctx.Err() != nil:
			return exitError, message + ". The call ended before the hook was complete"
		case a.status == http.StatusOK || a.status == http.StatusNoContent:
			return exitOK, message
		case a.final():
			return exitRefused, message
		}
		wait := a.after
		if a.status == http.StatusAccepted {
			failures = 0
		} else {
			failures++
			wait = max(wait, operation.Backoff(minWait, maxBackoff, failures))
		}
		fmt.Fprintf(c.log, "%s. Next request in %s\n", message, wait)
		c.sleep(ctx, wait)
		if ctx.Err() != nil {
			return exitError, message + ". The call ended before the hook was complete"
		}
	}
}

// ask sends one request.
func (c call) ask(ctx context.Context) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", c.key)
	request.Header.Set("User-Agent", "drydock")
	response, err := c.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()                                        // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)) // only the status matters
	return answer{status: response.StatusCode, after: waitOf(response)}
}

// final reports whether the answer rules out a retry. No answer, an overload and a failure of the server do not.
func (a answer) final() bool {
	return a.status != 0 && a.status != http.StatusAccepted && a.status != http.StatusTooManyRequests &&
		a.status < http.StatusInternalServerError
}

// waitOf returns how long the server wants the caller to wait. Without Retry-After it is 0, except after 202.
func waitOf(response *http.Response) time.Duration {
	text := response.Header.Get("Retry-After")
	wait := time.Duration(-1)
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		wait = time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = max(time.Until(date), 0)
	}
	switch {
	case wait >= 0:
		return min(max(wait, minWait), maxWait)
	case response.StatusCode == http.StatusAccepted:
		return defaultWait
	}
	return 0
}

// describe returns the result of a request in words. It omits the query of the URL and the server's own text.
func (c call) describe(a answer) string {
	shown := url.URL{Scheme: c.url.Scheme, Host: c.url.Host, Path: c.url.Path, RawPath: c.url.RawPath}
	what := strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
	switch {
	case a.err != nil:
		what = "no answer: " + reasonOf(a.err)
	case a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest:
		what += ", redirects are not followed"
	}
	return fmt.Sprintf("POST %s: %s", shown.String(), what)
}

// reasonOf returns why there was no answer. It does not use the errors of the HTTP client, which quote the URL and the
// server.
func reasonOf(err error) string {
	var timeout *url.Error
	var connection *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &connection):
		return connection.Error()
	}
	return "the server closed the connection or does not speak HTTP"
}

// sleep waits, but not beyond the end of the context.
func sleep(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}
