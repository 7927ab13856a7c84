package hookurl_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"drydock.dev/shared/hookurl"
	"drydock.dev/test/golden"
)

func TestURLsOfHooks(t *testing.T) {
	file := golden.Open(t)
	for _, text := range []string{
		"http://drain",
		"https://drain.shop.svc:443/a?",
		"http://[fd00::1]:80/",
		"http://10.0.0.1/a@b",
		"",
		"drain:80/hook",
		"ftp://drain/",
		"http:drain",
		"http:///hook",
		"http://:80/",
		"http://secret@drain/",
		"http://secret:word@drain/",
		"http://drain:0/secret",
		"http://drain:65536/secret",
		"http://drain:http/secret",
		"http://drain/%zz?secret",
		"http://drain/\x00secret",
		"http://[secret/",
	} {
		_, err := hookurl.Parse(text)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error quotes it: %v", text, err)
		}
		file.Entry(t, strconv.Quote(text), fmt.Sprint(err))
	}
}
