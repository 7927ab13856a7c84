package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// status prints the state and the processes of each cluster.
func (p places) status(ctx context.Context) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, size := range config.Sizes {
		c := p.cluster(size)
		processes, err := host.Processes(c.Dir())
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", size, health(ctx, c, processes), describe(processes))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}

// health returns the state of a cluster and a hint for the next step.
func health(ctx context.Context, c config.Cluster, processes []host.Process) string {
	if len(processes) == 0 {
		return "down"
	}
	api, err := newAPI(c)
	if err == nil {
		err = api.ready(ctx)
	}
	if err == nil && c.Size == config.Node {
		err = nodeHealthy(ctx, c, api)
	}
	if err != nil {
		return "not ready (" + err.Error() + "); run `up` to start the missing components"
	}
	return "ready, KUBECONFIG=" + c.Kubeconfig()
}

// describe lists components with their process ids. It only counts the containers' shims.
func describe(processes []host.Process) string {
	var parts []string
	containers := 0
	for _, process := range processes {
		if host.IsShim(process) {
			containers++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%d", process.Component, process.PID))
	}
	slices.Sort(parts)
	if containers > 0 {
		parts = append(parts, fmt.Sprintf("pods=%d", containers))
	}
	return strings.Join(parts, " ")
}

// progressPeriod is the time between two progress messages of a step.
const progressPeriod = 10 * time.Second

// say prints a message to standard error, because scripts read standard output.
func say(what string) { fmt.Fprintln(os.Stderr, what) }

// step runs a function, and prints its progress and its duration.
func step(what string, do func() error) error {
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticks := time.NewTicker(progressPeriod)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				say(fmt.Sprintf("%s: %s", what, elapsed(start)))
			}
			return err
		case <-ticks.C:
			say(fmt.Sprintf("%s ... %s", what, elapsed(start)))
		}
	}
}

func elapsed(start time.Time) time.Duration {
	passed := time.Since(start)
	if passed < progressPeriod {
		return passed.Round(100 * time.Millisecond)
	}
	return passed.Round(time.Second)
}
