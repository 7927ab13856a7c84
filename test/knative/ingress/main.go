// Package main is the ingress for the Knative Services of the local cluster. Traefik's provider for Knative turns Ingresses into routes and
// reports them as ready. Traefik's rule matcher selects a route, and the reverse proxy of Go's library forwards the request. Traefik's own
// server is left out, because it is compiled with every provider, which takes minutes.
//
// The ingress implements the part of class traefik.ingress.networking.knative.dev that tests need: hosts, paths and headers, shares of
// revisions, added headers, HTTP/1, h2c and upgraded connections. It does not implement TLS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/knative"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// The names of the two entry points in the provider's configuration.
const (
	public  = "public"
	private = "private"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	zerolog.SetGlobalLevel(zerolog.InfoLevel)
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal().Err(err).Msg("The ingress ended")
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ingress", flag.ContinueOnError)
	addresses := map[string]*string{
		public:  flags.String(public, ":8080", "address for requests from outside the cluster"),
		private: flags.String(private, ":8081", "address for requests from inside the cluster"),
	}
	publicService := flags.String("public-service", "", "Service of the public address, as NAMESPACE/NAME")
	privateService := flags.String("private-service", "", "Service of the private address, as NAMESPACE/NAME")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	provider := &knative.Provider{
		PublicEntrypoints: []string{public}, PublicService: service(*publicService),
		PrivateEntrypoints: []string{private}, PrivateService: service(*privateService),
	}
	if err := provider.Init(); err != nil {
		return fmt.Errorf("reaching the API server: %w", err)
	}
	routers := map[string]*router{public: {}, private: {}}
	configurations := make(chan dynamic.Message)
	if err := provider.Provide(configurations, safe.NewPool(ctx)); err != nil {
		return fmt.Errorf("watching Knative's Ingresses: %w", err)
	}
	failed := make(chan error, len(routers))
	for name, r := range routers {
		go func() { failed <- serve(ctx, *addresses[name], r) }()
	}
	return follow(ctx, configurations, routers, failed)
}

// follow applies every configuration of the provider. The provider reports Ingresses as ready immediately afterwards, so follow must not
// block.
func follow(ctx context.Context, configurations <-chan dynamic.Message, routers map[string]*router, failed <-chan error) error {
	for {
		select {
		case message := <-configurations:
			for name, r := range routers {
				r.configure(name, message.Configuration.HTTP)
			}
			log.Info().Int("routes", len(message.Configuration.HTTP.Routers)).Msg("Routes changed")
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// serve serves HTTP/1 and, for gRPC, HTTP/2 without TLS.
func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, Protocols: plainProtocols()}
	go func() {
		<-ctx.Done()
		_ = server.Close() // the process ends
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	return nil
}

func plainProtocols() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// service parses NAMESPACE/NAME.
func service(text string) knative.ServiceRef {
	namespace, name, _ := strings.Cut(text, "/")
	return knative.ServiceRef{Name: name, Namespace: namespace}
}
