//go:build linux

package fsys
