package api

// Where the containers of a hook of a scaling find the HookFacts.
const (
	HookDir  = "/etc/drydock" // the image of Drydock has the program itself at /drydock
	HookFile = "hook.json"
)

// HookFacts tell a hook of a scaling which members come or go. It reads them as JSON in a file of its pod.
type HookFacts struct {
	// Hook is "pre", "post" or "onFailure", Direction "up" or "down".
	Hook      string `json:"hook"`
	Direction string `json:"direction"`
	// Current is the count before the scaling, Desired the one after it.
	Current int32 `json:"current"`
	Desired int32 `json:"desired"`
	// Paused is true if the members that are removed are only away: the Scaler is paused, or the set falls asleep.
	Paused bool `json:"paused"`
	// Added and Removed are ordinals; at most one of the two has any, and neither is null.
	Added     []int  `json:"added"`
	Removed   []int  `json:"removed"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Scaler    string `json:"scaler"`
	Operation string `json:"operation"`
}

// Encode renders the document.
func (f HookFacts) Encode() string { return mustJSON(f) }
