package main

import (
	"fmt"
	"os"
	"time"
)

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
