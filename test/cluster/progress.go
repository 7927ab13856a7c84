package main

import (
	"fmt"
	"os"
	"time"
)

// patience is how long a step may be silent.
const patience = 10 * time.Second

// say tells people what happens. It goes to standard error, since scripts read standard output.
func say(what string) { fmt.Fprintln(os.Stderr, what) }

// step does something, telling from time to time that it still does, and how long it took.
func step(what string, do func() error) error {
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticks := time.NewTicker(patience)
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
	if passed < patience {
		return passed.Round(100 * time.Millisecond)
	}
	return passed.Round(time.Second)
}
