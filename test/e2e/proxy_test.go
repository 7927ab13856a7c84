//go:build cluster

package e2e

import (
	"testing"
	"time"

	"drydock.dev/test/kit/proxy"
	"drydock.dev/test/kit/stage"
)

// proxied is a stage whose process reaches the API server through a proxy.
type proxied struct {
	*stage.Stage
	*proxy.Proxy
}

func newProxy(t testing.TB, s *stage.Stage) *proxied {
	t.Helper()
	p := proxy.Start(t, s.Config)
	return &proxied{&stage.Stage{World: s.World, Kubeconfig: p.Kubeconfig}, p}
}

// quiet waits until there was no request for two seconds.
func (p *proxied) quiet() {
	p.Eventually("Drydock is at rest", func() string {
		last := time.Time{}
		for _, r := range p.Requests() {
			if r.Kind != proxy.Watch {
				last = r.At
			}
		}
		if since := time.Since(last); last.IsZero() || since < 2*time.Second {
			return "it was asking for something " + since.String() + " ago"
		}
		return ""
	})
}

// counts returns the number of requests by kind (read, write, watch) and by HTTP method.
func (p *proxied) counts() map[string]float64 {
	n := map[string]float64{}
	for _, r := range p.Requests() {
		n[string(r.Kind)]++
		if r.Kind != proxy.Watch {
			n[r.Method]++
		}
	}
	return n
}

func (p *proxied) firstWrite() time.Time {
	for _, r := range p.Requests() {
		if r.Kind == proxy.Write {
			return r.At
		}
	}
	return time.Time{}
}
