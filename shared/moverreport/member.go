package moverreport

import "encoding/json"

// Results of a MemberReport.
const (
	ResultConverged    = "converged"     // first: the forecast is below the longest stop
	ResultNotConverged = "not converged" // both: the forecast is above it and does not fall
	ResultCopied       = "copied"        // final: all targets are verified copies
	ResultFailed       = "failed"        // both
)

// MemberReport says how a container of a waiting mover ended.
type MemberReport struct {
	Stage   string  `json:"stage"` // FirstContainer or FinalContainer
	Result  string  `json:"result"`
	Code    int     `json:"code"` // the exit code
	Reason  Reason  `json:"reason"`
	Message string  `json:"message"`          // begins with the claim if it is about one
	Signal  *Signal `json:"signal,omitempty"` // that began the final pass; nil if none was read

	Passes          int       `json:"passes"`                // first passes of this container that ended
	PassSeconds     []float64 `json:"passSeconds,omitempty"` // how long the last of them took
	ForecastSeconds float64   `json:"forecastSeconds"`       // of the final pass, as the last first pass left it; 0 if there was none
	MaxStopSeconds  float64   `json:"maxStopSeconds"`
	Seconds         float64   `json:"seconds"` // first: of all; final: from reading the signal to the report

	Claims        []ClaimReport `json:"claims"`
	ClaimsOmitted int           `json:"claimsOmitted,omitempty"` // claims left out at the end for want of room
}

// ClaimReport says what was done for one claim. Its numbers are documented at Report. In the first stage they are of all passes
// together, but Skipped, Changed, Recorded and Trusted of the last one.
type ClaimReport struct {
	Name          string   `json:"name"` // of the volume claim template
	Bytes         int64    `json:"bytes,omitempty"`
	Files         int64    `json:"files,omitempty"`
	Skipped       int64    `json:"skipped,omitempty"`
	Deleted       int64    `json:"deleted,omitempty"`
	Digest        string   `json:"digest,omitempty"` // final: of a verified copy
	Changed       int64    `json:"changed,omitempty"`
	RecordedFiles int64    `json:"recordedFiles,omitempty"`
	RecordedBytes int64    `json:"recordedBytes,omitempty"`
	TrustedFiles  int64    `json:"trustedFiles,omitempty"`
	TrustedBytes  int64    `json:"trustedBytes,omitempty"`
	Count         int      `json:"problemCount,omitempty"`
	Problems      []string `json:"problems,omitempty"` // the first of them
	Warnings      []string `json:"warnings,omitempty"`
	Omitted       int      `json:"omitted,omitempty"` // problems and warnings left out for want of room
}

// ParseMember reads a termination message of a waiting mover's container, or the last line of its log.
func ParseMember(text []byte) (MemberReport, error) {
	var r MemberReport
	err := json.Unmarshal(text, &r)
	return r, err
}

// Encode is the report as one line of JSON without line break, of at most limit bytes (if that is not less than 1024). First the
// lists are cut, then the message, then claims.
func (r MemberReport) Encode(limit int) []byte {
	r.Claims = append([]ClaimReport(nil), r.Claims...)
	for {
		b, err := json.Marshal(r)
		switch {
		case err != nil: // no value of these types does this
			return []byte(`{"result":"failed","code":1,"reason":"IOError","message":"the report could not be written"}`)
		case len(b) <= limit:
			return b
		case r.cutLists():
		case len(r.Message) > messageLeast:
			r.Message = shorten(r.Message, max(messageLeast, len(r.Message)*limit/len(b)))
		case len(r.Claims) > 0:
			r.Claims = r.Claims[:len(r.Claims)-1]
			r.ClaimsOmitted++
		case r.Message == "":
			return b
		default: // escapes
			r.Message = shorten(r.Message, len(r.Message)/2)
		}
	}
}

// messageLeast is how many bytes of the message are worth more than a claim's numbers.
const messageLeast = 256

// cutLists takes one sentence away from the claim with the most, a warning first. It reports whether there was one.
func (r *MemberReport) cutLists() bool {
	longest, most := -1, 0
	for i := range r.Claims {
		if n := len(r.Claims[i].Warnings) + len(r.Claims[i].Problems); n > most {
			longest, most = i, n
		}
	}
	if longest < 0 {
		return false
	}
	c := &r.Claims[longest]
	if n := len(c.Warnings); n > 0 {
		c.Warnings = c.Warnings[: n-1 : n-1]
	} else {
		c.Problems = c.Problems[: len(c.Problems)-1 : len(c.Problems)-1]
	}
	c.Omitted++
	return true
}
