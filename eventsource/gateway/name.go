package gateway

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Name is the name of a StatefulSet in a request.
type Name struct {
	Ref
	// Asked is the name in the form of the request, without the prefix. The answer uses the same form.
	Asked string
	// Optional is true if the set wakes with the session but the session does not wait for it.
	Optional bool
}

func compareNames(a, b Name) int {
	return cmp.Or(compareRefs(a.Ref, b.Ref), strings.Compare(a.Asked, b.Asked))
}

// optionalPrefix marks a name that the session does not wait for (sablierapp/sablier pkg/sablier/session_request.go).
const optionalPrefix = "optional:"

const nameFormat = "NAMESPACE/NAME or statefulset_NAMESPACE_NAME_REPLICAS"

// kindStatefulSet is Sablier's name of the kind.
const kindStatefulSet = "statefulset"

// ParseName reads NAMESPACE/NAME, or KIND_NAMESPACE_NAME_REPLICAS as Sablier does (sablierapp/sablier
// pkg/provider/kubernetes/parse_name.go), each with or without the prefix "optional:". A name alone belongs to the default
// namespace. The replicas have to be a number and are ignored, because a set wakes with its previous replica count.
func ParseName(text, defaultNamespace string) (Name, error) {
	asked, optional := strings.CutPrefix(text, optionalPrefix)
	ref, err := parseRef(asked, defaultNamespace)
	return Name{Ref: ref, Asked: asked, Optional: optional}, err
}

func parseRef(text, defaultNamespace string) (Ref, error) {
	delimited := strings.HasPrefix(text, kindStatefulSet+"-") || strings.HasPrefix(text, kindStatefulSet+".")
	if len(validation.IsDNS1123Subdomain(text)) == 0 && !delimited {
		if defaultNamespace == "" {
			return Ref{}, invalid("%.100q names no namespace. Write %s", text, nameFormat)
		}
		return Ref{defaultNamespace, text}, nil
	}
	if namespace, name, ok := strings.Cut(text, "/"); ok && !strings.Contains(name, "/") {
		return validRef(text, Ref{namespace, name})
	}
	return parseSablier(text)
}

// parseSablier reads KIND NAMESPACE NAME REPLICAS with a delimiter between them. In Sablier's Kubernetes provider the delimiter is a
// setting with any text. Here the delimiter is the text between the kind and the first letter or digit of the namespace.
func parseSablier(text string) (Ref, error) {
	kind := text[:wordEnd(text)]
	if kind != kindStatefulSet {
		return Ref{}, invalid("%.100q names the kind %.30q, and Drydock wakes only StatefulSets. Write %s", text, kind, nameFormat)
	}
	rest := text[len(kind):]
	delimiter := rest[:max(0, strings.IndexFunc(rest, isWord))]
	if delimiter == "" {
		return Ref{}, invalid("%.100q is not the name of a StatefulSet. Write %s", text, nameFormat)
	}
	parts := strings.Split(text, delimiter)
	switch {
	case len(parts) != 4:
		return Ref{}, invalid("%.100q is not the name of a StatefulSet. Write %s", text, nameFormat)
	case !isCount(parts[3]):
		return Ref{}, invalid("%.100q does not end in a number of replicas. Write %s", text, nameFormat)
	}
	return validRef(text, Ref{parts[1], parts[2]})
}

// isWord reports whether a Kubernetes name may start with the character.
func isWord(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

// wordEnd returns the length of the text's first word.
func wordEnd(text string) int {
	if end := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) }); end >= 0 {
		return end
	}
	return len(text)
}

// validRef returns the reference if both parts are Kubernetes names. They become part of a path at the API server.
func validRef(text string, ref Ref) (Ref, error) {
	if len(validation.IsDNS1123Label(ref.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return Ref{}, invalid("%.100q has no valid namespace and name. Write %s", text, nameFormat)
	}
	return ref, nil
}

func isCount(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n >= 0
}
