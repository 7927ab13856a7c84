//go:build linux

package mover

import (
	"strings"
	"testing"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/shared/moverreport"
)

// OwnOnly returns options that refuse a foreign target.
func ownOnly(o Options) Options {
	o.OwnOnly, o.Token = true, operation
	return o
}

// passes returns the passes with which an operation may begin to fill a target.
func passes(src, dst string) map[string]Options {
	return map[string]Options{
		"first": ownOnly(firstPass(src, dst)),
		"whole": ownOnly(Options{Source: src, Target: dst}),
		"final": ownOnly(finalPass(src, dst)),
	}
}

func TestSourceWithMarkersNameIsRefused(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	writeFile(t, src+"/"+target.MarkerName, target.MarkerMagic+operation+"\n")
	for pass, o := range passes(src, dst) {
		if e := copyFails(t, o, moverreport.CodeNotFaithful); !strings.Contains(e.Message, target.MarkerName) {
			t.Errorf("%s: %v", pass, e)
		}
	}
}

func TestReserve(t *testing.T) {
	for percent, want := range map[int]int64{0: 0, 1: 11, 10: 119, 50: 599, 99: 1187} {
		if got := (target.Space{Size: 1199}).Reserve(percent); got != want {
			t.Errorf("%d%%: %d, want %d", percent, got, want)
		}
	}
}
