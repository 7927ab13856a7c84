package main

import (
	"fmt"
	"time"

	"drydock.dev/test/demo/show"
)

// report prints a line after the raw events that preceded it.
func (o *observer) report(style show.Style, at time.Time, what, format string, args ...any) {
	o.raw.flush()
	o.print(style, at, what, fmt.Sprintf(format, args...))
}

// print prints a line with the time since the request. It prints nothing before the request and after the end.
func (o *observer) print(style show.Style, at time.Time, what, text string) {
	if offset, runs := o.clock.since(at); runs {
		o.screen.Line(style, "%7.1fs  %-5s  %s", offset.Seconds(), what, text)
	}
}
