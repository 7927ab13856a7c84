//go:build linux

package mover

// Pass is the kind of a copy.
type Pass int

// A volume is copied either in one pass, or in any number of first passes and then one final pass.
const (
	PassWhole Pass = iota // nothing writes to the source
	PassFirst             // the source is in use: entries that change are tolerated, all others are verified and recorded
	PassFinal             // nothing writes to the source: recorded entries that have not changed are not read again
)
