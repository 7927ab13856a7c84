package resize

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
)

// maxAnnotations is how many bytes the annotations of one object may have: Kubernetes' limit (apimachinery pkg/api/validation,
// TotalAnnotationSizeLimitB), less a reserve for the links and policies that Drydock writes.
const maxAnnotations = 256<<10 - 8<<10

// maxClaimProgress is how many bytes the record of one claim may grow by during the copy: a digest, nodes, figures, the cause of a stall.
const maxClaimProgress = 800

// checkAnnotationSizes finds annotations that leave no room for Drydock's own: the record on the set, and the manifest of the claim on its
// volume. If the API server rejected such a write for its size, the member would stay stopped.
func checkAnnotationSizes(in Input, w *Changes) []Problem {
	record := w.Record(in)
	var found []Problem
	used := bytesOf(in.Set.Annotations) - len(in.Set.Annotations[api.StatusAnnotation])
	if used+len(record.Encode())+maxClaimProgress*len(record.Moves()) > maxAnnotations {
		found = append(found, problem(api.RecordTooLarge, "the annotations of StatefulSet %s have %d bytes and leave no room for the record "+
			"of the resize; an object may have %d. Remove the largest annotations", in.Set.Name, used, 256<<10))
	}
	for _, move := range record.Moves() {
		claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
		if claim == nil || volume == nil {
			continue
		}
		link := api.Link{Operation: record.Operation, Role: api.RoleNewClaim, Namespace: in.Set.Namespace, Set: record.Set, Claim: move.Claim}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
		if err != nil {
			continue // unreachable: a claim has JSON
		}
		manifest := api.EncodeClaim(resources.MakeSuccessor(&unstructured.Unstructured{Object: fields}, volume, move.Target(), link))
		if bytesOf(volume.Annotations)+len(manifest) > maxAnnotations {
			found = append(found, problem(api.RecordTooLarge, "claim %s has %d bytes of annotations, too many to save them on its volume %s "+
				"while the claim is replaced; an object may have %d. Remove the largest annotations",
				move.Claim, bytesOf(claim.Annotations), volume.Name, 256<<10))
		}
	}
	return found
}

// bytesOf returns the size of annotations in bytes, as the API server counts it.
func bytesOf(annotations map[string]string) int {
	sum := 0
	for key, value := range annotations {
		sum += len(key) + len(value)
	}
	return sum
}
