//go:build linux

package mover

import (
	"strings"
	"testing"

	"drydock.dev/shared/moverreport"
)

// own makes options that refuse a foreign target.
func ownOnly(o Options) Options {
	o.OwnOnly, o.Token = true, operation
	return o
}

// passes are the ways in which an operation may begin to fill a target.
func passes(src, dst string) map[string]Options {
	return map[string]Options{
		"warm":  ownOnly(warmOf(src, dst)),
		"whole": ownOnly(Options{Source: src, Target: dst}),
		"final": ownOnly(finalOf(src, dst)),
	}
}

func TestSourceMayNotHaveTheMarkersName(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	write(t, src+"/"+markerName, markerMagic+operation+"\n")
	for pass, o := range passes(src, dst) {
		if e := failing(t, o, moverreport.CodeNotFaithful); !strings.Contains(e.Message, markerName) {
			t.Errorf("%s: %v", pass, e)
		}
	}
}
