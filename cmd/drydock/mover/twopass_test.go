//go:build linux

package mover

import (
	"time"

	"drydock.dev/cmd/drydock/mover/tree"
)

// Tests cannot wait for two minutes. A few ticks of the clock are enough, because no write takes longer here.
const (
	settled   = 30 * time.Millisecond
	operation = "op-1"
)

func firstPass(src, dst string) Options {
	return Options{Source: src, Target: dst, Pass: tree.PassFirst, Token: operation, Settled: settled, Workers: 3, Record: recordOf(dst)}
}

func finalPass(src, dst string) Options {
	o := firstPass(src, dst)
	o.Pass = tree.PassFinal
	return o
}
