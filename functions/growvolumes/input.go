package growvolumes

import (
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on.
type Input struct {
	// Observed contains only the set and its claims.
	*world.Observed
	// Enabled reports whether growth is enabled for the set, by its own annotation or by the default of its namespace.
	Enabled bool
	Rules   grow.Rules
	// RulesError is why the rules cannot be read; empty if they can.
	RulesError string
	// Consent is the consent of the namespace to a change of the custom resource that controls the set. It is read only if a volume is nearly
	// full, and Drydock is to change that resource.
	Consent api.OwnerConsent
	// Usage is the measured usage, by claim.
	Usage map[string]grow.Usage
	// Classes are the StorageClasses of the claims, by name. They are read only if a volume is nearly full. A class that does not exist is
	// nil.
	Classes map[string]*storagev1.StorageClass
}
