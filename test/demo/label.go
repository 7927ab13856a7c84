package main

const (
	// demoLabel marks a namespace that the demo may delete.
	demoLabel = "app.kubernetes.io/part-of"
	demoValue = "drydock-demo"
)
