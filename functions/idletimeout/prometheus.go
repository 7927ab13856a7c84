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

// prometheus asks the administrator's Prometheus. The author of a StatefulSet writes the query, and an error message of Prometheus
// can quote series of other tenants. Therefore only the meaning of the answer reaches the set, never its text.
type prometheus struct {
	server     prom.Server
	namespaces []string
	log        *slog.Logger
}

func newPrometheus(settings api.Settings, log *slog.Logger) *prometheus {
	return &prometheus{server: prom.New(settings), namespaces: settings.PromNamespaces, log: log}
}

// allows reports whether sets of the namespace may send queries: the administrator listed the namespace, or the URL separates tenants.
func (p *prometheus) allows(namespace string) bool {
	return p.server.SeparatesNamespaces() || slices.Contains(p.namespaces, namespace) || slices.Contains(p.namespaces, "*")
}

// ask reports whether a value of the query's result is above zero. An empty result is an error.
func (p *prometheus) ask(ctx context.Context, namespace, query string) (bool, error) {
	switch {
	case !p.server.IsConfigured():
		return false, errors.New("no Prometheus is configured. Set DRYDOCK_PROMETHEUS to its URL")
	case !p.allows(namespace):
		return false, fmt.Errorf("sets of namespace %s may not query Prometheus. "+
			"Add the namespace to DRYDOCK_PROMETHEUS_NAMESPACES, or put %s into DRYDOCK_PROMETHEUS", namespace, prom.NamespacePlaceholder)
	}
	code, body, err := p.server.Query(ctx, namespace, query, maxSeries, maxAnswerBytes)
	switch {
	case errors.Is(err, prom.ErrSettings):
		return false, p.logAndHide(ctx, namespace, "prometheus cannot be queried; check the settings DRYDOCK_PROMETHEUS*", err)
	case errors.Is(err, prom.ErrUnfinished):
		return false, p.logAndHide(ctx, namespace, "prometheus did not finish its answer", err)
	case err != nil:
		return false, p.logAndHide(ctx, namespace, "prometheus did not answer", err)
	}
	return anyAboveZero(code, body)
}

// anyAboveZero reports whether a value of the result is above zero. Its errors quote only the status code of the answer.
func anyAboveZero(code int, body []byte) (bool, error) {
	samples, err := prom.Read(code, body, maxSeries)
	return slices.ContainsFunc(samples, func(s prom.Sample) bool { return s.Value > 0 }), err
}

// logAndHide logs the error for the administrator, and returns the message that the author of the set may read.
func (p *prometheus) logAndHide(ctx context.Context, namespace, known string, err error) error {
	p.log.WarnContext(ctx, "asking Prometheus", "namespace", namespace, "error", err.Error())
	return errors.New(known)
}
