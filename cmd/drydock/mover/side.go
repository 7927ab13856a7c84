//go:build linux

package mover

// side distinguishes the two trees, in messages and where errors have different meanings.
type side int

const (
	source side = iota
	target
)

func (s side) String() string { return [...]string{"source", "target"}[s] }
