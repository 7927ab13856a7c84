package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	contentType = "application/x-protobuf"

	// maxAnswer is the maximum number of bytes to read of an answer.
	maxAnswer = 4 << 10

	// Pauses between two attempts grow from the first to the longest, unless the collector asks for a longer pause.
	firstPause   = 200 * time.Millisecond
	longestPause = 3 * time.Second
)

// collector is the endpoint for one signal.
type collector struct {
	url     string
	header  http.Header
	zip     bool
	timeout time.Duration
	client  *http.Client
}

// post sends a message. While the collector is unavailable, it retries until the timeout.
func (c *collector) post(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := c.pack(message)
	if err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		wait, err := c.try(ctx, body)
		if err == nil || wait < 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(wait, pause)):
		}
	}
}

func (c *collector) pack(message []byte) ([]byte, error) {
	if !c.zip {
		return message, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(message); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return packed.Bytes(), nil
}

// final rules out a retry.
const final = time.Duration(-1)

// try posts once. With an error it returns the minimum wait before a retry, or final.
func (c *collector) try(ctx context.Context, body []byte) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return final, fmt.Errorf("making a request to the collector: %w", err)
	}
	for key, values := range c.header {
		request.Header[key] = values
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "drydock")
	if c.zip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("sending to the collector: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read only
	answer, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, fmt.Errorf("the collector %s answered %s", c.url, response.Status)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return final, fmt.Errorf("the collector %s answered %s", c.url, response.Status)
	}
	if response.Header.Get("Content-Type") == contentType {
		return final, rejected(answer)
	}
	return final, nil
}

// rejected reads the answer to a partly accepted post: field 1 of an ExportTraceServiceResponse or
// ExportMetricsServiceResponse, with the number and the reason (opentelemetry-proto collector/*/v1).
func rejected(answer []byte) error {
	partial, err := field(answer, 1)
	if err != nil || len(partial) == 0 {
		return err
	}
	reason, err := field(partial, 2)
	if err != nil {
		return err
	}
	return fmt.Errorf("the collector did not take everything: %s", reason)
}

// field returns a field that holds bytes, or nil if the message lacks it.
func field(message []byte, number protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, errors.New("the collector's answer is no protobuf message")
		}
		message = message[n:]
		if found == number && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return nil, errors.New("the collector's answer is cut off")
			}
			return value, nil
		}
		if n = protowire.ConsumeFieldValue(found, kind, message); n < 0 {
			return nil, errors.New("the collector's answer is cut off")
		}
		message = message[n:]
	}
	return nil, nil
}
