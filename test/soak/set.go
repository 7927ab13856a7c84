package soak

import (
	"fmt"

	"drydock.dev/test/kit/stage"
)

// Kind says how a set is operated.
type Kind string

const (
	// Whole sets stop all members together for a resize.
	Whole Kind = "whole"
	// Rolling sets stop one member at a time.
	Rolling Kind = "rolling"
	// Growing sets have volumes that grow in place.
	Growing Kind = "growing"
	// Scaled sets have a Scaler. Every second one has a hook.
	Scaled Kind = "scaled"
	// Cleaned sets have a cleanup pod template.
	Cleaned Kind = "cleaned"
)

// Set is the state of a set after the steps so far.
type Set struct {
	Name string
	Kind Kind
	// FirstReplicas is the number of members when the set wakes for the first time.
	FirstReplicas int
	// Replicas is the present count. A set that sleeps keeps the count that it gets back.
	Replicas int
	Asleep   bool
	// Claims is the number of ordinals with claims.
	Claims int
	// Size is the size of each volume in MiB, Class its StorageClass.
	Size  int
	Class string
	// Hook is true if the Scaler of the set runs a Job before each change.
	Hook bool
}

// Running returns the number of pods.
func (s Set) Running() int {
	if s.Asleep {
		return 0
	}
	return s.Replicas
}

// String returns the state in one line.
func (s Set) String() string {
	state := "awake"
	if s.Asleep {
		state = "asleep"
	}
	return fmt.Sprintf("%s %s %d replicas, %d claims of %dMi@%s", s.Name, state, s.Replicas, s.Claims, s.Size, s.Class)
}

// SetCount is the number of sets.
const SetCount = 50

// NewSets returns the sets before the first step. None has a pod.
func NewSets() []Set {
	// Ten sets in a row have these kinds.
	kinds := []Kind{Whole, Rolling, Growing, Scaled, Cleaned, Whole, Rolling, Rolling, Growing, Scaled}
	var sets []Set
	for i := range SetCount {
		s := Set{Name: fmt.Sprintf("s%02d", i), Kind: kinds[i%len(kinds)], FirstReplicas: 1 + i%3, Size: fixedSizes[0], Class: stage.Class}
		switch s.Kind {
		case Rolling:
			s.FirstReplicas = 2 + i%2
		case Growing:
			s.FirstReplicas, s.Size, s.Class = 1+i%2, growingSizes[0], stage.GrowingClass
		case Scaled:
			s.Hook = i%len(kinds) == 3
		}
		sets = append(sets, s)
	}
	return sets
}

// Sizes of volumes, in MiB. The smallest xfs is larger than the smallest ext4.
var (
	fixedSizes   = []int{24, 32, 40, 48, 64}
	growingSizes = []int{64, 80, 96, 112, 128}
)

// sizes returns the possible sizes of the set's volumes.
func (s Set) sizes() []int {
	if s.Kind == Growing {
		return growingSizes
	}
	return fixedSizes
}
