package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/rs/zerolog/log"
)

// Transports for the two schemes that the provider writes. Neither asks a proxy, since all backends are Services.
var transports = map[string]http.RoundTripper{
	"http": &http.Transport{MaxIdleConnsPerHost: 100},
	"h2c":  &http.Transport{Protocols: onlyHTTP2()},
}

func onlyHTTP2() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// proxyTo passes requests on with their own host, by which Knative tells Services apart.
func proxyTo(address string) (http.Handler, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, known := transports[target.Scheme]
	if !known {
		return nil, fmt.Errorf("no transport is known for %s", address)
	}
	target.Scheme = "http"
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // streams pass as they come
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, request *http.Request, err error) {
			log.Warn().Err(err).Str("host", request.Host).Str("to", address).Msg("A request failed")
			w.WriteHeader(http.StatusBadGateway)
		},
	}, nil
}
