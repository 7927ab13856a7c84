package main

// Exit codes of serve and call. copy has the codes of package moverreport.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// exitRefused is the exit code of a call whose answer rules out a retry.
const exitRefused = 3
