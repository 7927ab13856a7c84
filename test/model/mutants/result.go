package main

// How a guard was found, or not.
const (
	byUnit    = "unit tests"
	byModel   = "model"
	redundant = "redundant"
	alive     = "ALIVE"
)
