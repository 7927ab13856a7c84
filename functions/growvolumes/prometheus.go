package growvolumes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"drydock.dev/shared/grow"
	"drydock.dev/shared/prom"
)

const (
	// mostAnswer bounds the answer of Prometheus, in bytes. Five series of a claim have some 2,000.
	mostAnswer = 8 << 20
	// mostSeries bounds the series of an answer.
	mostSeries = 20_000
	// behind is how much older than the answer a sample may be: Prometheus returns the latest sample of the last five minutes.
	behind = 5 * time.Minute
)

// byPrometheus asks with one query for all claims of the set.
func (f *Function) byPrometheus(ctx context.Context, in Input) (map[string]grow.Usage, error) {
	server, claims := prom.New(f.settings), in.asked()
	switch {
	case !server.Known():
		return nil, errors.New("DRYDOCK_GROW_USAGE=prometheus needs the URL of Prometheus in DRYDOCK_PROMETHEUS")
	case len(claims) == 0:
		return nil, nil
	}
	code, body, err := server.Ask(ctx, in.Set.Namespace, query(in.Set.Namespace, claims), mostSeries, mostAnswer)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	samples, err := prom.Read(code, body, mostSeries)
	if err != nil {
		return nil, err
	}
	return usageIn(samples, in.Set.Namespace), nil
}

// query selects the figures of the claims. Names of claims are labels of DNS, but they are quoted: the query must not depend on that.
func query(namespace string, claims []string) string {
	var quoted []string
	for _, claim := range claims {
		quoted = append(quoted, regexp.QuoteMeta(claim))
	}
	return fmt.Sprintf(`{__name__=~"kubelet_volume_stats_(capacity_bytes|available_bytes|inodes|inodes_free)",namespace=%q,persistentvolumeclaim=~%q}`,
		namespace, strings.Join(quoted, "|"))
}

// usageIn joins the series of each claim that come from one place: the node, or the scraped instance. A claim is unknown if a figure is missing
// or not a number.
func usageIn(samples []prom.Sample, namespace string) map[string]grow.Usage {
	type source struct{ claim, place string }
	figures := map[source]map[string]int64{}
	times := map[source]time.Time{}
	for _, sample := range samples {
		labels := sample.Labels
		if labels["namespace"] != namespace {
			continue
		}
		from := source{labels["persistentvolumeclaim"], labels["node"] + " " + labels["instance"] + " " + labels["job"]}
		if figures[from] == nil {
			figures[from] = map[string]int64{}
		}
		name := strings.TrimPrefix(labels["__name__"], "kubelet_volume_stats_")
		if _, twice := figures[from][name]; twice {
			figures[from][name] = -1
			continue
		}
		figures[from][name], times[from] = whole(sample.Value), sample.At.Add(-behind)
	}
	usage := map[string]grow.Usage{}
	for from, has := range figures {
		capacity, sized := has["capacity_bytes"]
		free, measured := has["available_bytes"]
		u := grow.Usage{Capacity: capacity, Free: free, Inodes: has["inodes"], InodesFree: has["inodes_free"], At: times[from]}
		if !sized || !measured {
			u = grow.Usage{}
		}
		grow.Add(usage, from.claim, u)
	}
	return usage
}

// whole returns the number, or -1 if a volume cannot have it.
func whole(value float64) int64 {
	if math.IsNaN(value) || value < 0 || value > math.MaxInt64/2 {
		return -1
	}
	return int64(value)
}
