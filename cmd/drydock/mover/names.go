//go:build linux

package mover

import (
	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Names of the packages below that callers use.
type (
	Error        = fault.Error
	Interruption = fault.Interruption
	Limiter      = progress.Limiter
	Figures      = forecast.Figures
	Pass         = tree.Pass
)

// See package tree.
const (
	PassWhole = tree.PassWhole
	PassFirst = tree.PassFirst
	PassFinal = tree.PassFinal
)

// DefaultSettled is record.DefaultSettled.
const DefaultSettled = record.DefaultSettled

// NewLimiter is progress.NewLimiter.
func NewLimiter(bytesPerSecond int64) *Limiter { return progress.NewLimiter(bytesPerSecond) }
