package gateway

import (
	"cmp"
	"strings"
)

// Ref names a StatefulSet, or a group.
type Ref struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
