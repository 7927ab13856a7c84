package growvolumes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"drydock.dev/shared/grow"
	"drydock.dev/shared/prom"
)

const (
	// maxAnswerBytes bounds the answer of Prometheus. Five series of a claim take about 2,000 bytes.
	maxAnswerBytes = 8 << 20
	// maxSeries bounds the number of series in an answer.
	maxSeries = 20_000
	// maxSampleAge is how much older than the answer a sample may be: Prometheus returns the latest sample of the last five minutes.
	maxSampleAge = 5 * time.Minute
)

// usageFromPrometheus reads the usage of all claims of the set with one query.
func (f *Function) usageFromPrometheus(ctx context.Context, in Input) (map[string]grow.Usage, error) {
	server, claims := prom.New(f.settings), in.claimsWithRule()
	switch {
	case !server.IsConfigured():
		return nil, errors.New("DRYDOCK_GROW_USAGE=prometheus needs the URL of Prometheus. Set DRYDOCK_PROMETHEUS")
	case len(claims) == 0:
		return nil, nil
	}
	code, body, err := server.Query(ctx, in.Set.Namespace, query(in.Set.Namespace, claims), maxSeries, maxAnswerBytes)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	samples, err := prom.Read(code, body, maxSeries)
	if err != nil {
		return nil, err
	}
	return usageFromSamples(samples, in.Set.Namespace), nil
}

// query returns the PromQL query for the figures of the claims. It quotes the claim names, although Kubernetes allows only DNS names.
func query(namespace string, claims []string) string {
	var quoted []string
	for _, claim := range claims {
		quoted = append(quoted, regexp.QuoteMeta(claim))
	}
	return fmt.Sprintf(`{__name__=~"kubelet_volume_stats_(capacity_bytes|available_bytes|inodes|inodes_free)",`+
		`namespace=%q,persistentvolumeclaim=~%q}`,
		namespace, strings.Join(quoted, "|"))
}

// usageFromSamples joins the series of each claim and scraped node. The usage of a claim is unknown if the capacity or the free space is
// missing or not a number, or if two clusters report the claim. Inodes count only if both of their series exist.
func usageFromSamples(samples []prom.Sample, namespace string) map[string]grow.Usage {
	type source struct{ claim, cluster, place string }
	figures := map[source]map[string]int64{}
	times := map[source]time.Time{}
	for _, sample := range samples {
		labels := sample.Labels
		if labels["namespace"] != namespace {
			continue
		}
		from := source{labels["persistentvolumeclaim"], labels["cluster"], labels["node"] + " " + labels["instance"] + " " + labels["job"]}
		if figures[from] == nil {
			figures[from] = map[string]int64{}
		}
		name := strings.TrimPrefix(labels["__name__"], "kubelet_volume_stats_")
		if _, twice := figures[from][name]; twice {
			figures[from][name] = -1
			continue
		}
		figures[from][name], times[from] = toBytes(sample.Value), sample.At.Add(-maxSampleAge)
	}
	usage, clusters := map[string]grow.Usage{}, map[string]string{}
	for from, figuresOf := range figures {
		capacity, sized := figuresOf["capacity_bytes"]
		free, measured := figuresOf["available_bytes"]
		u := grow.Usage{Capacity: capacity, Free: free, MeasuredAt: times[from]}
		inodes, counted := figuresOf["inodes"]
		if inodesFree, known := figuresOf["inodes_free"]; counted && known { // Prometheus may lack a series
			u.Inodes, u.InodesFree = inodes, inodesFree
		}
		cluster, reported := clusters[from.claim]
		clusters[from.claim] = from.cluster
		if !sized || !measured || reported && cluster != from.cluster { // a Prometheus of several clusters has claims with the same name
			u = grow.Usage{}
		}
		grow.Add(usage, from.claim, u)
	}
	return usage
}

// toBytes returns the value as an integer, or -1 if the value is impossible for a volume.
func toBytes(value float64) int64 {
	if math.IsNaN(value) || value < 0 || value > math.MaxInt64/2 {
		return -1
	}
	return int64(value)
}

// claimsWithRule returns the sorted names of the members' claims that a rule covers.
func (in Input) claimsWithRule() []string {
	var names []string
	for i := range in.Set.Spec.VolumeClaimTemplates {
		template := in.Set.Spec.VolumeClaimTemplates[i].Name
		if _, hasRule := in.Rules.For(template); hasRule {
			for _, c := range in.memberClaims(template) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
