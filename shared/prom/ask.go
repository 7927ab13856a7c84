package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrSettings reports that the settings are wrong, and Prometheus was not queried.
	ErrSettings = errors.New("look at the settings DRYDOCK_PROMETHEUS*")
	// ErrUnfinished reports that the answer broke off after its beginning.
	ErrUnfinished = errors.New("the answer has no end")
)

// Query sends an instant query for the namespace, and returns the status code and body of the answer (Prometheus HTTP API). It requests at
// most series+1 series, and reads at most that many bytes. An error about the settings is ErrSettings, a broken answer ErrUnfinished.
func (s Server) Query(ctx context.Context, namespace, query string, series int, bytes int64) (code int, body []byte, err error) {
	request, err := s.request(ctx, namespace, query, series)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	client, err := s.client()
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() // nothing was written
	if body, err = io.ReadAll(io.LimitReader(response.Body, bytes)); err != nil {
		err = fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return response.StatusCode, body, err
}

// request returns the HTTP request. Its limit is one series more than allowed, so that Read detects an answer with too many.
func (s Server) request(ctx context.Context, namespace, query string, series int) (*http.Request, error) {
	address, err := s.address(namespace)
	if err != nil {
		return nil, err
	}
	form := url.Values{"query": {query}, "limit": {strconv.Itoa(series + 1)}}
	if deadline, ok := ctx.Deadline(); ok {
		form.Set("timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"ms")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request, s.authorize(request)
}
