package v1alpha1

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnmarshalJSON takes a status that cannot be read for none, so that it is written anew. The API server takes times that Go does not, such as
// 2020-01-01t00:00:00z, from everybody who may report a status; and one Scaler that cannot be read makes a list of all of them unreadable.
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

// Wanted returns the count that the Scaler asks for; nil if it takes the one that there is.
func (s *Scaler) Wanted() *int32 {
	if s.Spec.Paused && s.Spec.Replicas != nil {
		return new(int32)
	}
	return s.Spec.Replicas
}

// Deadlines of a Scaler that the API server has not completed.
const (
	DefaultHookDeadline    = 10 * time.Minute
	DefaultScalingDeadline = 30 * time.Minute
)

// Or returns the time, or another one where there is none.
func (d Deadline) Or(other time.Duration) time.Duration {
	if limit, err := time.ParseDuration(string(d)); err == nil && limit > 0 {
		return limit
	}
	return other
}
