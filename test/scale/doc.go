// Package scale measures Drydock on a cluster with ten thousand StatefulSets. docs/benchmarks.md has the figures and their meaning.
//
// Its benchmarks need an API server of their own, because a cluster of this size slows every other test: make bench-scale. The one of a
// single wake-up belongs to make bench.
package scale
