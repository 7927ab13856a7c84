package resize

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
)

// maxAnnotations is how many bytes the annotations of one object may have (apimachinery pkg/api/validation,
// TotalAnnotationSizeLimitB), less room for the links and policies that Drydock writes besides.
const maxAnnotations = 256<<10 - 8<<10

// progressOfClaim is how many bytes the record of one claim may grow by while the claim is copied: a digest, nodes, figures,
// the cause of a stall.
const progressOfClaim = 800

// checkDocuments finds annotations that leave no room for what Drydock has to write beside them: the record on the set, and on a volume the
// claim that it is reserved for. A write that is refused for its size would keep a member held.
func checkDocuments(in Input, w *Wish) []Problem {
	record := w.Operation(in)
	var found []Problem
	room := size(in.Set.Annotations) - len(in.Set.Annotations[api.StatusAnnotation])
	if room+len(record.Encode())+progressOfClaim*len(record.Moves()) > maxAnnotations {
		found = append(found, problem(api.DocumentTooLarge, "the annotations of StatefulSet %s have %d bytes, "+
			"which leaves no room for the record of the resize; an object may have %d. Remove the largest ones", in.Set.Name, room, 256<<10))
	}
	for _, move := range record.Moves() {
		claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
		if claim == nil || volume == nil {
			continue
		}
		link := api.Link{Operation: record.Operation, Role: api.RoleSuccessor, Namespace: in.Set.Namespace, Set: record.Set, Claim: move.Claim}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
		if err != nil {
			continue // unreachable: a claim has JSON
		}
		manifest := api.EncodeClaim(resources.MakeSuccessor(&unstructured.Unstructured{Object: fields}, volume, move.Target(), link))
		if size(volume.Annotations)+len(manifest) > maxAnnotations {
			found = append(found, problem(api.DocumentTooLarge, "claim %s has %d bytes of annotations, "+
				"too many to be kept safe on its volume %s while the claim is replaced; an object may have %d. Remove the largest ones",
				move.Claim, size(claim.Annotations), volume.Name, 256<<10))
		}
	}
	return found
}

func size(annotations map[string]string) int {
	sum := 0
	for key, value := range annotations {
		sum += len(key) + len(value)
	}
	return sum
}
