package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/rs/zerolog/log"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/requestdecorator"
	rules "github.com/traefik/traefik/v3/pkg/muxer/http"
)

// router serves one entry point with the latest configuration.
type router struct{ current atomic.Pointer[rules.Muxer] }

// canonical stores the request's host where the rule matcher reads it.
var canonical = requestdecorator.New(nil)

func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	muxer := r.current.Load()
	if muxer == nil {
		http.Error(w, "there is no configuration yet", http.StatusServiceUnavailable)
		return
	}
	canonical.ServeHTTP(w, request, muxer.ServeHTTP)
}

// configure replaces all routes. It leaves out unreadable routes, so that they do not block the others.
func (r *router) configure(entryPoint string, configuration *dynamic.HTTPConfiguration) {
	parser, err := rules.NewSyntaxParser()
	if err != nil {
		log.Error().Err(err).Msg("Creating the parser of rules failed")
		return
	}
	muxer := rules.NewMuxer(parser)
	for name, route := range configuration.Routers {
		if route.TLS != nil || !slices.Contains(route.EntryPoints, entryPoint) {
			continue
		}
		handler, err := handlerOf(route, configuration)
		if err == nil {
			err = muxer.AddRoute(route.Rule, "", rules.GetRulePriority(route.Rule), handler)
		}
		if err != nil {
			log.Error().Err(err).Str("route", name).Msg("Leaving out an unreadable route")
		}
	}
	r.current.Store(muxer)
}

// share is a backend and its weight among the backends of a route.
type share struct {
	weight  int
	headers map[string]string
	backend http.Handler
}

// handlerOf returns the handler of a route. The provider configures it as a service that distributes requests among services with one
// server.
func handlerOf(route *dynamic.Router, configuration *dynamic.HTTPConfiguration) (http.Handler, error) {
	shared := configuration.Services[route.Service]
	if shared == nil || shared.Weighted == nil {
		return nil, fmt.Errorf("service %s does not distribute requests", route.Service)
	}
	var shares []share
	for _, each := range shared.Weighted.Services {
		target := configuration.Services[each.Name]
		if target == nil || target.LoadBalancer == nil || len(target.LoadBalancer.Servers) != 1 {
			return nil, fmt.Errorf("service %s does not have exactly one server", each.Name)
		}
		backend, err := proxyTo(target.LoadBalancer.Servers[0].URL)
		if err != nil {
			return nil, fmt.Errorf("reading the address of service %s: %w", each.Name, err)
		}
		next := share{weight: 1, headers: each.Headers, backend: backend}
		if each.Weight != nil {
			next.weight = *each.Weight
		}
		shares = append(shares, next)
	}
	var added []map[string]string
	for _, name := range route.Middlewares {
		if m := configuration.Middlewares[name]; m != nil && m.Headers != nil {
			added = append(added, m.Headers.CustomRequestHeaders)
		}
	}
	return distribute(shares, added), nil
}

// distribute sends each request to one share, at random by weight.
func distribute(shares []share, added []map[string]string) http.Handler {
	total := 0
	for _, s := range shares {
		total += s.weight
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if total == 0 {
			http.Error(w, "the route has no revision", http.StatusServiceUnavailable)
			return
		}
		chosen := pick(shares, rand.IntN(total))
		for _, headers := range added {
			set(request.Header, headers)
		}
		set(request.Header, chosen.headers)
		chosen.backend.ServeHTTP(w, request)
	})
}

// set sets each of the headers.
func set(header http.Header, values map[string]string) {
	for name, value := range values {
		header.Set(name, value)
	}
}

// pick returns the share for a number between 0 and the sum of the weights.
func pick(shares []share, number int) share {
	for _, s := range shares {
		if number -= s.weight; number < 0 {
			return s
		}
	}
	return shares[len(shares)-1]
}
