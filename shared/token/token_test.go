package token

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckAcceptsOnlyTheToken(t *testing.T) {
	for name, row := range map[string]struct {
		token Token
		send  func(*http.Request)
		wrong bool
	}{
		"no token is required":      {Token{}, func(*http.Request) {}, false},
		"no token is sent":          {Token{Value: "right"}, func(*http.Request) {}, true},
		"a bearer token":            {Token{Value: "right"}, bearer("right"), false},
		"another bearer token":      {Token{Value: "right"}, bearer("wrong"), true},
		"a prefix of the token":     {Token{Value: "right"}, bearer("righ"), true},
		"a Basic password":          {Token{Value: "right"}, basic("any", "right"), false},
		"a line break at the end":   {Token{Value: "right\r\n"}, basic("any", "right"), false},
		"the line break is sent":    {Token{Value: "right\n"}, basic("any", "right\n"), true},
		"the user name is no token": {Token{Value: "right"}, basic("right", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			row.send(r)
			if err := row.token.Check(r); errors.Is(err, ErrWrong) != row.wrong || err != nil && !row.wrong {
				t.Errorf("got %v, want an error: %t", err, row.wrong)
			}
		})
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func basic(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

// TestFileIsReadAtEachCheck: a token is renewed without a restart, and a file without a token admits no caller.
func TestFileIsReadAtEachCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	token := Token{File: file, FileSetting: "TOKEN_FILE"}
	check := func(sent string) error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		bearer(sent)(r)
		return token.Check(r)
	}
	if err := check(""); err == nil || errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "TOKEN_FILE") {
		t.Errorf("without the file: %v", err)
	}
	for _, row := range []struct{ text, sent string }{{"first\n", "first"}, {"second", "second"}} {
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(row.sent); err != nil {
			t.Error(err)
		}
	}
	if err := check("first"); !errors.Is(err, ErrWrong) {
		t.Errorf("the old token: %v", err)
	}
	if err := os.WriteFile(file, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(""); err == nil || errors.Is(err, ErrWrong) {
		t.Errorf("an empty file: %v", err)
	}
	token = Token{Value: "\n"}
	if err := check(""); err == nil || errors.Is(err, ErrWrong) {
		t.Errorf("a setting with only a line break: %v", err)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	text := fmt.Sprintf("%v %s %+v", Secret("hidden word"), Secret("hidden word"), Token{Value: "hidden word"})
	if strings.Contains(text, "word") {
		t.Error(text)
	}
}
