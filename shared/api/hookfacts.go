package api

// HookDir and HookFile are the directory and the name of the file with the HookFacts, in the containers of a scaling's hook.
const (
	HookDir  = "/etc/drydock" // Drydock's image has the program itself at /drydock
	HookFile = "hook.json"
)

// HookFacts tell a hook which members a scaling adds or removes. The hook reads them as JSON from a file in its pod.
type HookFacts struct {
	// Hook is "pre", "post" or "onFailure", Direction "up" or "down".
	Hook      string `json:"hook"`
	Direction string `json:"direction"`
	// Current is the count before the scaling, Desired the count after it.
	Current int32 `json:"current"`
	Desired int32 `json:"desired"`
	// Paused is true if the removed members will come back: the Scaler is paused, or the set goes to sleep.
	Paused bool `json:"paused"`
	// Added and Removed are ordinals. At most one of the lists has entries. Neither is null.
	Added     []int  `json:"added"`
	Removed   []int  `json:"removed"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Scaler    string `json:"scaler"`
	Operation string `json:"operation"`
}

// Encode renders the document.
func (f HookFacts) Encode() string { return mustJSON(f) }
