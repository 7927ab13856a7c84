package statuspage

import (
	"embed"
	"net/http"
	"strconv"
)

const htmlKind = "text/html; charset=utf-8"

// assets are the files that pages load. Pages load nothing else.
//
//go:embed page.js page.css
var assets embed.FS

// securityHeaders are in every answer. The page runs only its own script and style, sends no cookie, and no other page can contain it.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// asset returns the file with the path and its media type, or nil.
func asset(path string) (body []byte, kind string) {
	switch path {
	case "/page.js":
		kind = "text/javascript; charset=utf-8"
	case "/page.css":
		kind = "text/css; charset=utf-8"
	default:
		return nil, ""
	}
	body, err := assets.ReadFile(path[1:])
	if err != nil {
		panic("reading an embedded file: " + err.Error()) // unreachable: the file is embedded
	}
	return body, kind
}

// write sends a complete body. The caller may have disconnected, so it ignores the error of the write.
func write(w http.ResponseWriter, kind string, body []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return nil
}
