package owners

import "slices"

// zeroReplicas is the replica count of a stopped operator.
const zeroReplicas = int64(0)

// kinds returns kinds from alternating names and plurals.
func kinds(pairs ...string) []Kind {
	var out []Kind
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, Kind{Name: pair[0], Plural: pair[1]})
	}
	return out
}

func annotation(key, value string) Setting { return Setting{In: Annotation, Key: key, Value: value} }

func field(path string, value any) Setting { return Setting{In: Field, Key: path, Value: value} }
