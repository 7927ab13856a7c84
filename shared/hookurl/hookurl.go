// Package hookurl parses the URLs of HTTP hooks.
package hookurl

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// Parse parses the URL of a hook. Its errors do not quote the URL, because it may contain a secret.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return nil, fmt.Errorf("the url cannot be read: %.100s", err.Error())
	}
	switch port, err := strconv.ParseUint(u.Port(), 10, 16); {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the url must begin with http:// or https://")
	case u.User != nil:
		return nil, errors.New("the url has a user or a password, which is not sent; remove it and the @")
	case u.Hostname() == "":
		return nil, errors.New("the url names no host")
	case u.Port() != "" && (err != nil || port == 0):
		return nil, errors.New("the port of the url is not between 1 and 65535")
	}
	return u, nil
}
