package wakegateway

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Ref names a StatefulSet, or a group.
type Ref struct{ Namespace, Name string }

// String is how people name it.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

const nameFormat = "NAMESPACE/NAME or statefulset_NAMESPACE_NAME_REPLICAS"

// delimiters separate the parts of Sablier's names; which one is a setting of its Kubernetes provider, "_" by default. None
// of them can be in a name of Kubernetes.
const delimiters = "_:#/"

// kindStatefulSet is how Sablier names the kind.
const kindStatefulSet = "statefulset"

// ParseName reads NAMESPACE/NAME, or KIND_NAMESPACE_NAME_REPLICAS as Sablier does (sablierapp/sablier
// pkg/provider/kubernetes/parse_name.go). The replicas have to be a number, and say nothing: a set wakes with as many as it
// had, and no request can choose them.
func ParseName(text string) (Ref, error) {
	i := strings.IndexAny(text, delimiters)
	if i < 0 {
		return Ref{}, invalid("%.100q names no namespace; write %s", text, nameFormat)
	}
	switch parts := strings.Split(text, text[i:i+1]); {
	case len(parts) == 2 && text[i] == '/':
		return checked(text, Ref{parts[0], parts[1]})
	case len(parts) != 4:
		return Ref{}, invalid("%.100q is no name of a StatefulSet; write %s", text, nameFormat)
	case parts[0] != kindStatefulSet:
		return Ref{}, invalid("%.100q names a %.30q; Drydock wakes StatefulSets only, write %s", text, parts[0], nameFormat)
	case !isCount(parts[3]):
		return Ref{}, invalid("%.100q ends in no number of replicas; write %s", text, nameFormat)
	default:
		return checked(text, Ref{parts[1], parts[2]})
	}
}

// checked lets only names of Kubernetes pass: they end in a path at the API server.
func checked(text string, ref Ref) (Ref, error) {
	if len(validation.IsDNS1123Label(ref.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return Ref{}, invalid("%.100q has no valid namespace and name; write %s", text, nameFormat)
	}
	return ref, nil
}

func isCount(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n >= 0
}
