package hookurl_test

import (
	"strings"
	"testing"

	"drydock.dev/shared/hookurl"
)

func TestURLThatNoHookMayCall(t *testing.T) {
	for text, want := range map[string]string{
		"http://drain":                  "",
		"https://drain.shop.svc:443/a?": "",
		"http://[fd00::1]:80/":          "",
		"http://10.0.0.1/a@b":           "",
		"":                              "has to begin with http",
		"drain:80/hook":                 "has to begin with http",
		"ftp://drain/":                  "has to begin with http",
		"http:drain":                    "names no host",
		"http:///hook":                  "names no host",
		"http://:80/":                   "names no host",
		"http://secret@drain/":          "a user or a password",
		"http://secret:word@drain/":     "a user or a password",
		"http://drain:0/secret":         "between 1 and 65535",
		"http://drain:65536/secret":     "between 1 and 65535",
		"http://drain:http/secret":      "cannot be read",
		"http://drain/%zz?secret":       "cannot be read",
		"http://drain/\x00secret":       "cannot be read",
		"http://[secret/":               "cannot be read",
	} {
		_, err := hookurl.Parse(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error quotes it: %v", text, err)
		}
	}
}
