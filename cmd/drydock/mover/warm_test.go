//go:build linux

package mover

import (
	"time"
)

// Tests cannot wait for two minutes: a few ticks of the clock are enough where no write takes longer.
const (
	settled   = 30 * time.Millisecond
	operation = "op-1"
)

func warmOf(src, dst string) Options {
	return Options{Source: src, Target: dst, Pass: PassWarm, Token: operation, Settled: settled, Workers: 3}
}

func finalOf(src, dst string) Options {
	o := warmOf(src, dst)
	o.Pass = PassFinal
	return o
}
