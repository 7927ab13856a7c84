package v1alpha1

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnmarshalJSON decodes a Scaler, and leaves out a status that it cannot decode, so that scale-hooks writes the status anew. The API server
// accepts times that Go rejects, such as 2020-01-01t00:00:00z, and one Scaler that fails to decode fails the list of all Scalers.
func (s *Scaler) UnmarshalJSON(text []byte) error {
	var parts struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   ScalerSpec      `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*s = Scaler{TypeMeta: parts.TypeMeta, ObjectMeta: parts.ObjectMeta, Spec: parts.Spec}
	if json.Unmarshal(parts.Status, &s.Status) != nil {
		s.Status = ScalerStatus{}
	}
	return nil
}

// UnmarshalJSON takes a mode that cannot be read for none of the four. The schema takes quantities that Go does not, such as 1e1.5.
func (m *ScalerMode) UnmarshalJSON(text []byte) error {
	type plain ScalerMode // without this method
	var mode plain
	if json.Unmarshal(text, &mode) != nil {
		mode = plain{}
	}
	*m = ScalerMode(mode)
	return nil
}

// Unreadable reports whether there is a mode that Go cannot read.
func (m *ScalerMode) Unreadable() bool {
	return m != nil && m.Fixed == nil && m.HPA == nil && m.Auto == nil && m.ExternallyScaled == nil
}

// Wanted returns the count that the Scaler asks for: zero during a pause, nil if the Scaler takes the count of the set.
func (s *Scaler) Wanted() *int32 {
	if s.Spec.Paused && s.Spec.Replicas != nil {
		return new(int32)
	}
	return s.Spec.Replicas
}

// Deadlines of a Scaler without the API server's defaults.
const (
	DefaultHookDeadline    = 10 * time.Minute
	DefaultScalingDeadline = 30 * time.Minute
)

// LongestDeadline is a week. Several deadlines are added up, and that must not overflow.
const LongestDeadline = 7 * 24 * time.Hour

// Or returns the duration, at most LongestDeadline, or other if there is no positive one.
func (d Deadline) Or(other time.Duration) time.Duration {
	if limit, err := time.ParseDuration(string(d)); err == nil && limit > 0 {
		return min(limit, LongestDeadline)
	}
	return other
}
