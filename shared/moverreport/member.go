package moverreport

import (
	"bytes"
	"encoding/json"
	"slices"

	"drydock.dev/shared/text"
)

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
	Message string  `json:"message"`          // begins with the claim, if the result concerns one
	Signal  *Signal `json:"signal,omitempty"` // the signal that began the final pass; nil if none was read

	Passes          int       `json:"passes"`                // completed first passes of this container
	PassSeconds     []float64 `json:"passSeconds,omitempty"` // durations of the last ones
	ForecastSeconds float64   `json:"forecastSeconds"`       // forecast of the final pass after the last first pass; 0 if there was none
	MaxStopSeconds  float64   `json:"maxStopSeconds"`
	Seconds         float64   `json:"seconds"` // first: in total; final: from reading the signal to the report

	Claims        []ClaimReport `json:"claims"`
	ClaimsOmitted int           `json:"claimsOmitted,omitempty"` // claims left out to fit the limit
}

// ClaimReport is the result for one claim. Report describes its numbers. In the first stage they are sums over all
// passes, except Skipped, Total, Changed, Recorded and Trusted, which describe the last pass. Warnings are those of all passes.
type ClaimReport struct {
	Name          string   `json:"name"` // of the volume claim template
	Bytes         int64    `json:"bytes,omitempty"`
	Files         int64    `json:"files,omitempty"`
	Skipped       int64    `json:"skipped,omitempty"`
	Deleted       int64    `json:"deleted,omitempty"`
	Total         int64    `json:"total,omitempty"`
	Verified      bool     `json:"verified,omitempty"` // by a final pass
	Changed       int64    `json:"changed,omitempty"`
	RecordedFiles int64    `json:"recordedFiles,omitempty"`
	RecordedBytes int64    `json:"recordedBytes,omitempty"`
	TrustedFiles  int64    `json:"trustedFiles,omitempty"`
	TrustedBytes  int64    `json:"trustedBytes,omitempty"`
	Count         int      `json:"problemCount,omitempty"`
	Problems      []string `json:"problems,omitempty"` // the first of them
	Warnings      []string `json:"warnings,omitempty"`
	Omitted       int      `json:"omitted,omitempty"` // problems and warnings left out to fit the limit
}

// ParseMember reads a termination message of a waiting mover's container, or the last line of its log. The kubelet truncates the message if
// a webhook has added containers to the mover's pod. Then the claims after that place are missing.
func ParseMember(text []byte) (MemberReport, error) {
	var r MemberReport
	err := json.Unmarshal(text, &r)
	for _, shorter := range withFewerClaims(text) {
		if err != nil {
			r = MemberReport{}
			err = json.Unmarshal(shorter, &r)
		}
	}
	return r, err
}

// withFewerClaims returns the report with the claims before the last beginning of a claim, and the report without claims.
func withFewerClaims(text []byte) [][]byte {
	before, claims, found := bytes.Cut(text, []byte(`"claims":[`))
	if !found {
		return nil
	}
	without := slices.Concat(before, []byte(`"claims":[]}`))
	if end := bytes.LastIndex(claims, []byte("},{")); end >= 0 {
		return [][]byte{slices.Concat(before, []byte(`"claims":[`), claims[:end], []byte("}]}")), without}
	}
	return [][]byte{without}
}

// Encode returns the report as one line of JSON without a line break, of at most limit bytes. The limit must be at least
// 1024. To fit, it first cuts the lists, then the message, then claims.
func (r MemberReport) Encode(limit int) []byte {
	r.Claims = append([]ClaimReport(nil), r.Claims...)
	for {
		b, err := json.Marshal(r)
		switch {
		case err != nil: // impossible with these types
			return []byte(`{"result":"failed","code":1,"reason":"IOError","message":"the report could not be written"}`)
		case len(b) <= limit:
			return b
		case r.cutLists():
		case len(r.Message) > minMessage:
			r.Message = text.ClipMiddle(r.Message, max(minMessage, len(r.Message)*limit/len(b)))
		case len(r.Claims) > 0:
			r.Claims = r.Claims[:len(r.Claims)-1]
			r.ClaimsOmitted++
		case r.Message == "":
			return b
		default: // escapes
			r.Message = text.ClipMiddle(r.Message, len(r.Message)/2)
		}
	}
}

// minMessage is the number of bytes of the message that take precedence over a claim's numbers.
const minMessage = 256

// cutLists removes one sentence from the claim with the most sentences, preferably a warning. It reports whether there
// was one.
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
