package scalehooks

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

// work is an Input with the record of the set's scaling and the Scaler that scales the set.
type work struct {
	Input
	record *api.Scale
	scaler *v1alpha1.Scaler // nil if the set has no Scaler
}
