package gateway

// showSession answers with the JSON document of Sablier (sablierapp/sablier internal/api/responses.go, pkg/sablier/instance.go).
func showSession(path string, query Query, s Session, err error) answer {
	if err == nil {
		err = s.refused()
	}
	if err != nil {
		return refuse(path, err)
	}
	out := sessionJSON{Status: isNotReady, Instances: []entryJSON{}}
	if s.Ready() {
		out.Status = isReady
	}
	for _, set := range s.Sets {
		for _, name := range responseNames(query, set.Ref) {
			entry := entryJSON{Instance: toInstance(name, set), Optional: set.Optional}
			if set.State == Missing {
				entry.Error = set.Message
			}
			out.Instances = append(out.Instances, entry)
		}
	}
	a := asJSON(map[string]sessionJSON{"session": out})
	a.ready = s.Ready()
	return a
}

// responseNames returns the names of the set in the answer: the names from the request, else NAMESPACE/NAME.
func responseNames(query Query, ref Ref) []string {
	if asked := query.namesFor(ref); len(asked) > 0 {
		return asked
	}
	return []string{ref.String()}
}

type sessionJSON struct {
	Instances []entryJSON `json:"instances"`
	Status    string      `json:"status"`
}

type entryJSON struct {
	Instance instanceJSON `json:"instance"`
	Error    string       `json:"error,omitempty"`
	Optional bool         `json:"optional,omitempty"`
}

// instanceJSON has Sablier's fields without image and labels, so that it does not disclose which software a set runs.
type instanceJSON struct {
	Name       string          `json:"name"`
	Current    int32           `json:"currentReplicas"`
	Desired    int32           `json:"desiredReplicas"`
	Status     string          `json:"status"`
	Groups     []string        `json:"groups,omitempty"`
	Enabled    string          `json:"enabled,omitempty"`
	Message    string          `json:"message,omitempty"`
	Provider   string          `json:"provider,omitempty"`
	Kubernetes *kubernetesJSON `json:"kubernetes,omitempty"`
}

type kubernetesJSON struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
}

func toInstance(name string, set Set) instanceJSON {
	out := instanceJSON{Name: name, Current: set.Ready, Desired: set.Want, Status: sablierStatus[set.State], Message: set.Message}
	if set.State == Missing {
		return out
	}
	if set.Group != "" {
		out.Groups = []string{set.Group}
	}
	out.Enabled, out.Provider = "true", "kubernetes"
	out.Kubernetes = &kubernetesJSON{Namespace: set.Namespace, Kind: kindStatefulSet}
	return out
}

// sablierStatus maps our states to Sablier's.
var sablierStatus = map[State]string{
	Asleep: "stopped", Paused: "stopped", Stopped: "stopped", Waking: "starting", Ready: "ready", Failed: "error", Missing: "error",
}
