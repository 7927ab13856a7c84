// Package arch tests the architecture: which packages may import which, which code is pure, and that configuration, documentation and code
// agree.
package arch
