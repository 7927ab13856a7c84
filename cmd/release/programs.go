package main

import "drydock.dev/cmd/release/build"

// The programs of a release.
const (
	functions  = "drydock"            // and mover
	standalone = "drydock-standalone" // all functions in one process
	plugin     = "kubectl-drydock"
)

// commandPackage is the package of the plugin's commands.
const commandPackage = "drydock.dev/cmd/kubectl-drydock/command"

var (
	amd64Linux = build.Platform{OS: "linux", Arch: "amd64"}
	arm64Linux = build.Platform{OS: "linux", Arch: "arm64"}
)

// programs are the programs of a release with their platforms.
var programs = []build.Program{
	{Name: functions, Platforms: []build.Platform{amd64Linux, arm64Linux}},
	{Name: standalone, Platforms: []build.Platform{amd64Linux, arm64Linux}},
	{Name: plugin, Platforms: []build.Platform{
		amd64Linux,
		arm64Linux,
		{OS: "darwin", Arch: "amd64"},
		{OS: "darwin", Arch: "arm64"},
		{OS: "windows", Arch: "amd64"},
		{OS: "windows", Arch: "arm64"},
	}},
}

// descriptions are the descriptions of the images.
var descriptions = map[string]string{
	functions:  "The functions of Drydock on Knative, and the mover that copies volumes",
	standalone: "All functions of Drydock in one process",
}
