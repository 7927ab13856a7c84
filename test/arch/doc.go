// Package arch tests what may import what.
package arch
