// Package report lays out an archive for a bug report. It contains only what package redact keeps. The package is pure.
package report

import (
	"time"

	"drydock.dev/cmd/kubectl-drydock/logs"
)

// Input has the facts of a report as they were read, with everything that must not be sent.
type Input struct {
	Now       time.Time
	Namespace string
	Set       string
	// Annotations are those of the set.
	Annotations map[string]string
	Groups      []Group
	// Status is the output of kubectl drydock status -o json, decoded. It is nil if it was not read.
	Status map[string]any
	// Doctor is the output of kubectl drydock doctor -o json, decoded. It is nil if it was not read.
	Doctor map[string]any
	// Server is the version of the API server. It is empty if it was not read.
	Server string
	// Settings is the content of the ConfigMap drydock-settings. It is nil if it was not read.
	Settings map[string]string
	Logs     *logs.Document
	// Missing are sentences about facts that were not read. They quote no errors.
	Missing []string
}

// Group has the objects of one kind, as JSON decodes them.
type Group struct {
	File    string // the name of the file
	Kind    string
	About   string // what the file contains
	Objects []map[string]any
}

// File is a file of the archive.
type File struct {
	Name    string
	About   string
	Content []byte
}

// ReadmeFile is the name of the first file.
const ReadmeFile = "README.txt"
