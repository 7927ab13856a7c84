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

// Secret is a setting that is never printed.
type Secret string

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// token is the token that callers have to send.
type token struct {
	value Secret
	file  string // read at each request, so that the token can be renewed
}

// required reports whether callers have to send a token.
func (t token) required() bool { return t.value != "" || t.file != "" }

// check returns a problem if the request does not have the token, else nil. A plugin that cannot set headers has the token as the
// password in its URL, and Go's HTTP client turns it into a header.
func (t token) check(r *http.Request) error {
	if !t.required() {
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
	is, should := sha256.Sum256([]byte(shown)), sha256.Sum256(want) // a comparison in constant time needs equal lengths
	if subtle.ConstantTimeCompare(is[:], should[:]) != 1 || !ok {
		return unauthorized()
	}
	return nil
}

// read returns the token. An empty file is an error, so that no request is accepted.
func (t token) read() ([]byte, error) {
	if t.file == "" {
		return []byte(t.value), nil
	}
	raw, err := os.ReadFile(t.file)
	if err != nil {
		return nil, fmt.Errorf("reading DRYDOCK_GATEWAY_TOKEN_FILE: %w", err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, errors.New("the file in DRYDOCK_GATEWAY_TOKEN_FILE is empty. Write the token into it")
	}
	return raw, nil
}
