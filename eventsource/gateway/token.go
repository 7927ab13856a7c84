package gateway

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

// Secret is a setting that is not shown.
type Secret string

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// token is what callers have to show.
type token struct {
	value Secret
	file  string // it is read at each request, so that it can be renewed
}

// wanted reports whether callers have to show a token.
func (t token) wanted() bool { return t.value != "" || t.file != "" }

// check returns the problem of a request that does not show the token, or nil. Plugins that can send no header send it as the
// password of their URL, which Go's HTTP client makes a header of.
func (t token) check(r *http.Request) error {
	if !t.wanted() {
		return nil
	}
	want, err := t.read()
	if err != nil {
		return tokenUnreadable(err)
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, basic := r.BasicAuth(); basic {
		shown, ok = password, true
	}
	is, should := sha256.Sum256([]byte(shown)), sha256.Sum256(want) // of one length, as a comparison in constant time needs
	if subtle.ConstantTimeCompare(is[:], should[:]) != 1 || !ok {
		return noToken()
	}
	return nil
}

// read returns the token. An empty file is an error, and lets nobody in.
func (t token) read() ([]byte, error) {
	if t.file == "" {
		return []byte(t.value), nil
	}
	raw, err := os.ReadFile(t.file)
	if err != nil {
		return nil, fmt.Errorf("reading DRYDOCK_GATEWAY_TOKEN_FILE: %w", err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, errors.New("the file that DRYDOCK_GATEWAY_TOKEN_FILE names is empty. Write the token into it")
	}
	return raw, nil
}
