package kit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"drydock.dev/shared/api"
)

// Prometheus is a stand-in that reports the usage of claims. Its clock is ahead, so that its figures are never too old.
type Prometheus struct {
	mu     sync.Mutex
	claims map[string]figures
	// queries are the received queries, in order.
	queries []string
}

// figures are the usage of a claim, in bytes and inodes. They do not change when the claim grows.
type figures struct{ used, inodes, inodesFree int64 }

// StartPrometheus starts a stand-in for Prometheus, which grow-volumes asks at each tick.
func (w *World) StartPrometheus() *Prometheus {
	w.T.Helper()
	p := &Prometheus{claims: map[string]figures{}}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { p.answer(w, rw, r) }))
	w.T.Cleanup(server.Close)
	w.Settings.Prometheus, w.Settings.GrowUsage = server.URL, api.GrowByPrometheus
	w.Settings.GrowPeriod, w.Settings.GrowTimeout = time.Minute, 10*time.Second
	return p
}

// SetUsed sets the used bytes of the claim, as "55Mi".
func (p *Prometheus) SetUsed(claim, used string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims[claim] = figures{used: Quantity(used).Value()}
}

// SetInodes sets the inodes of the claim's file system, and the free ones among them.
func (p *Prometheus) SetInodes(claim string, all, free int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.claims[claim]
	f.inodes, f.inodesFree = all, free
	p.claims[claim] = f
}

// Queries returns the number of queries.
func (p *Prometheus) Queries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queries)
}

// answer reports the claims in the query with their present capacity.
func (p *Prometheus) answer(w *World, rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	query := r.Form.Get("query")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, query)
	now, result := float64(time.Now().Add(6*time.Minute).Unix()), []any{}
	for claim, f := range p.claims {
		if !strings.Contains(query, claim) {
			continue
		}
		has := w.Claim(claim).Status.Capacity.Storage().Value()
		for name, value := range map[string]int64{"capacity_bytes": has, "available_bytes": max(0, has-f.used), "inodes": f.inodes,
			"inodes_free": f.inodesFree} {
			result = append(result, map[string]any{
				"metric": map[string]string{"__name__": "kubelet_volume_stats_" + name, "namespace": w.Namespace,
					"persistentvolumeclaim": claim, "node": "n"},
				"value": []any{now, fmt.Sprint(value)}})
		}
	}
	_ = json.NewEncoder(rw).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

// Growth is how the storage expands a claim.
type Growth string

const (
	// GrowsOnline expands volume and file system at once. It is the default.
	GrowsOnline Growth = ""
	// GrowsWhenMounted expands the volume at once, and its file system when a pod starts on it.
	GrowsWhenMounted Growth = "when mounted"
	// GrowsNever reports that the expansion is infeasible.
	GrowsNever Growth = "never"
	// GrowsLater does nothing until a test changes it.
	GrowsLater Growth = "later"
	// GrowsDetached expands the volume while no pod has it mounted, and its file system when a pod starts on it.
	GrowsDetached Growth = "detached"
)
