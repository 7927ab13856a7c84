package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/rs/zerolog/log"
)

// transports are the transports for the two schemes of the provider. They use no proxy, because all backends are Services.
var transports = map[string]http.RoundTripper{
	"http": &http.Transport{MaxIdleConnsPerHost: 100},
	"h2c":  &http.Transport{Protocols: onlyHTTP2()},
}

func onlyHTTP2() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// proxyTo returns a handler that forwards requests to the address with their original host, by which Knative distinguishes Services.
func proxyTo(address string) (http.Handler, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, known := transports[target.Scheme]
	if !known {
		return nil, fmt.Errorf("there is no transport for %s", address)
	}
	target.Scheme = "http"
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // forward streams without delay
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
