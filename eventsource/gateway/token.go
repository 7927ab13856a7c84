package gateway

import (
	"errors"
	"net/http"

	"drydock.dev/shared/token"
)

// Secret is a setting that is never printed.
type Secret = token.Secret

// checkToken returns a problem if the request does not have the token, else nil.
func checkToken(t token.Token, r *http.Request) error {
	err := t.Check(r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, token.ErrWrong):
		return unauthorized()
	}
	return tokenUnreadable(err)
}
