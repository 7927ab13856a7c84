// Package token checks the token that callers of an HTTP server send.
package token

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

// ErrWrong says that the request has no token, or another one. Every other error of Check says that the token cannot be read.
var ErrWrong = errors.New("the token is missing or wrong")

// Secret is a setting that is never printed.
type Secret string

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Token is the token that callers have to send. The zero value requires none.
type Token struct {
	Value Secret
	// File is read at each request, so that the token can be renewed. It has precedence over Value.
	File string
	// FileSetting is the environment variable that names the file, for errors.
	FileSetting string
}

// Required reports whether callers have to send a token.
func (t Token) Required() bool { return t.Value != "" || t.File != "" }

// Check returns nil if the request has the token, as Authorization: Bearer TOKEN or as a Basic password. A caller that cannot set headers
// has the token as the password in its URL, and HTTP clients turn it into a header.
func (t Token) Check(r *http.Request) error {
	if !t.Required() {
		return nil
	}
	want, err := t.read()
	if err != nil {
		return err
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, basic := r.BasicAuth(); basic {
		shown, ok = password, true
	}
	is, should := sha256.Sum256([]byte(shown)), sha256.Sum256(want) // a comparison in constant time needs equal lengths
	if subtle.ConstantTimeCompare(is[:], should[:]) != 1 || !ok {
		return ErrWrong
	}
	return nil
}

// read returns the token without line breaks at its end, which a Secret may have and no viewer can type. An empty token is an error, so
// that no request is accepted.
func (t Token) read() ([]byte, error) {
	if t.File == "" {
		value := strings.TrimRight(string(t.Value), "\r\n")
		if value == "" {
			return nil, errors.New("the token is empty. Create one that has characters")
		}
		return []byte(value), nil
	}
	raw, err := os.ReadFile(t.File)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", t.FileSetting, err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil, fmt.Errorf("the file in %s is empty. Write the token into it", t.FileSetting)
	}
	return raw, nil
}
