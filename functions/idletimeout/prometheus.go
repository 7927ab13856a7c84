package idletimeout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/prom"
)

// prometheus asks the administrator's Prometheus. The author of a StatefulSet writes the query, so nothing of the answer but its
// meaning may reach the set: an error message of Prometheus can quote series of other tenants.
type prometheus struct {
	server     prom.Server
	namespaces []string
	log        *slog.Logger
}

func newPrometheus(settings api.Settings, log *slog.Logger) *prometheus {
	return &prometheus{server: prom.New(settings), namespaces: settings.PromNamespaces, log: log}
}

// allows reports whether sets of the namespace may ask: the administrator names the namespace, or the URL keeps tenants apart.
func (p *prometheus) allows(namespace string) bool {
	return p.server.Tenants() || slices.Contains(p.namespaces, namespace) || slices.Contains(p.namespaces, "*")
}

// ask takes any value above zero for in use. A query without a result says nothing.
func (p *prometheus) ask(ctx context.Context, namespace, query string) (bool, error) {
	switch {
	case !p.server.Known():
		return false, errors.New("no Prometheus is known; set DRYDOCK_PROMETHEUS to its URL")
	case !p.allows(namespace):
		return false, fmt.Errorf("sets of namespace %s may not ask Prometheus; "+
			"add it to DRYDOCK_PROMETHEUS_NAMESPACES, or put %s into DRYDOCK_PROMETHEUS", namespace, prom.Tenant)
	}
	code, body, err := p.server.Ask(ctx, namespace, query, mostSeries, mostAnswer)
	switch {
	case errors.Is(err, prom.ErrSettings):
		return false, p.hide(ctx, namespace, "prometheus cannot be asked; look at the settings DRYDOCK_PROMETHEUS*", err)
	case errors.Is(err, prom.ErrUnfinished):
		return false, p.hide(ctx, namespace, "prometheus does not end its answer", err)
	case err != nil:
		return false, p.hide(ctx, namespace, "prometheus does not answer", err)
	}
	return above(code, body)
}

// above reports whether a value of the result is above zero. Its errors quote nothing of the answer but the status code.
func above(code int, body []byte) (bool, error) {
	samples, err := prom.Read(code, body, mostSeries)
	return slices.ContainsFunc(samples, func(s prom.Sample) bool { return s.Value > 0 }), err
}

// hide logs an error for the administrator, and returns what the author of the set may know.
func (p *prometheus) hide(ctx context.Context, namespace, known string, err error) error {
	p.log.WarnContext(ctx, "asking Prometheus", "namespace", namespace, "error", err.Error())
	return errors.New(known)
}
