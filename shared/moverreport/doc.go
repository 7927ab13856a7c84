// Package moverreport is the contract between the mover and the functions that start it: exit codes, reasons, progress
// lines and the report.
//
// The mover writes progress and, as its last line, the report to its log, and the report to its pod's termination
// message. The functions read both. The package imports the standard library only and does no I/O.
package moverreport
