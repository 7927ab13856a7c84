package v1alpha1

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
)

// UnmarshalJSON decodes a Scaler. It drops a status that it cannot decode, and scale then writes a new one. The API server accepts
// times that Go rejects, such as 2020-01-01t00:00:00z. If one Scaler failed to decode, the list of all Scalers would fail.
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

// UnmarshalJSON decodes a mode. A mode that it cannot decode has none of the four fields. The schema accepts quantities that Go rejects,
// such as 1e1.5, and others that take minutes to parse, such as 1e-99999999.
func (m *ScalerMode) UnmarshalJSON(text []byte) error {
	type plain ScalerMode // without this method
	var mode plain
	if bounded.JSON(text, &mode) != nil {
		mode = plain{}
	}
	*m = ScalerMode(mode)
	return nil
}

// Unreadable reports whether the mode is present but could not be decoded.
func (m *ScalerMode) Unreadable() bool {
	return m != nil && m.Fixed == nil && m.HPA == nil && m.Auto == nil && m.ExternallyScaled == nil
}

// Autoscales reports whether the mode has an autoscaler.
func (m *ScalerMode) Autoscales() bool { return m != nil && (m.HPA != nil || m.Auto != nil) }

// Requested returns the count that the Scaler requests without regard to a pause, after which it comes back, or nil if the Scaler takes
// over the count of the set.
func (s *Scaler) Requested() *int32 {
	if s.Spec.Mode != nil && s.Spec.Mode.Fixed != nil {
		return s.Spec.Mode.Fixed
	}
	return s.Spec.Replicas
}

// Defaults for the deadlines of a Scaler that lacks the API server's defaults.
const (
	DefaultHookDeadline    = 10 * time.Minute
	DefaultScalingDeadline = 30 * time.Minute
)

// LongestDeadline limits each deadline to a week, so that the sum of several deadlines does not overflow.
const LongestDeadline = 7 * 24 * time.Hour

// Or returns the duration, at most LongestDeadline. It returns other if the duration is invalid or not positive.
func (d Deadline) Or(other time.Duration) time.Duration {
	if limit, err := time.ParseDuration(string(d)); err == nil && limit > 0 {
		return min(limit, LongestDeadline)
	}
	return other
}
