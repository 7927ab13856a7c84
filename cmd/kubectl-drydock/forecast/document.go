// Package forecast says what a resize would do to a StatefulSet, without doing any of it: it asks the same judge as
// detect-resize (shared/resize), builds the same objects as the functions (shared/resources), and estimates how much is copied
// and for how long the set would be stopped. It is pure; kubectl drydock plan reads, has the API server try, and prints.
package forecast

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// Version is the version of the documents that this code makes. Fields are added without another one.
const Version = 1

// Verdict is what would become of the request.
type Verdict string

const (
	// Nothing: nobody asks for anything, or everything is as asked for.
	Nothing Verdict = "Nothing"
	// Goes: the resize would begin, and nothing is known to be in its way.
	Goes Verdict = "Goes"
	// Waits: nothing would begin before what is in Before has happened.
	Waits Verdict = "Waits"
	// Refused: the resize would not go through, for each of the reasons in Refused.
	Refused Verdict = "Refused"
)

// Document is what kubectl drydock plan -o json or yaml prints. Sizes and quantities are written as Kubernetes writes them, bytes and
// seconds as whole numbers. What is absent is empty, or would not be touched.
type Document struct {
	Version   int     `json:"version"`
	Namespace string  `json:"namespace"`
	Set       string  `json:"set"`
	Request   string  `json:"request,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Before has to happen before anything would begin: the set opts in, somebody asks, another operation ends.
	Before []resize.Problem `json:"before,omitempty"`
	// Refused are all reasons for which the resize would be refused, or would fail.
	Refused []resize.Problem `json:"refused,omitempty"`
	// Warnings are what may go wrong.
	Warnings []string `json:"warnings,omitempty"`
	// Method is that of the operation: expand where no claim is copied, else copy. Absent where nothing would be done.
	Method    api.Method           `json:"method,omitempty"`
	Claims    []Claim              `json:"claims,omitempty"`
	Templates []api.TemplateTarget `json:"templates,omitempty"`
	// Recreate: the set would be created again, with these templates.
	Recreate bool     `json:"recreate"`
	Owner    *Owner   `json:"owner,omitempty"`
	Copy     Copy     `json:"copy"`
	Downtime Downtime `json:"downtime"`
	// Quotas are those that count something of the resize.
	Quotas []resize.Room `json:"quotas,omitempty"`
	// Checks are what the API server said when it was to try what Drydock would write.
	Checks []Check `json:"checks,omitempty"`
	// Assumed is what was taken for granted because it could not be read.
	Assumed []string `json:"assumed,omitempty"`
}

// Claim is what would become of one claim.
type Claim struct {
	Name     string `json:"name"`
	Template string `json:"template"`
	// Method is expand for one that grows on its volume, copy for one that gets another.
	Method api.Method        `json:"method"`
	From   resource.Quantity `json:"from"`
	To     resource.Quantity `json:"to"`
	// Class and Modes are what it has, NewClass and NewModes what it would have where that is something else.
	Class    string                              `json:"class,omitempty"`
	NewClass string                              `json:"newClass,omitempty"`
	Modes    []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	NewModes []corev1.PersistentVolumeAccessMode `json:"newModes,omitempty"`
	// Volume is the one that it has. After a copy it is kept for a while.
	Volume string `json:"volume"`
	// Users are the pods that use it.
	Users []User `json:"users,omitempty"`
	// Cold says, of a claim that is copied, why nothing of it could be copied while the set runs; empty if it could.
	Cold string `json:"cold,omitempty"`
	// Used is how many bytes its file system uses, as the kubelet says; absent where that is not known.
	Used *int64 `json:"used,omitempty"`
	// Capacity is how many bytes its volume has: there cannot be more to copy.
	Capacity int64 `json:"capacity"`
}

// User is a pod that uses a claim.
type User struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	// Foreign: it is not one of the set.
	Foreign bool `json:"foreign,omitempty"`
}

// Owner is what controls the set.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Paused: it would be paused, from before the first copy until the set is ready.
	Paused bool `json:"paused"`
	// How says in words how, or why not.
	How string `json:"how"`
}

// Copy is how much there is to copy, in bytes. The estimate is Measured, and at most Unmeasured more.
type Copy struct {
	Claims int `json:"claims"`
	// Measured are the bytes that the kubelets say are in use.
	Measured int64 `json:"measured"`
	// Unmeasured is the capacity of the claims of which nobody says how much is in use.
	Unmeasured int64 `json:"unmeasured"`
}

// Outcome is what the API server said to something that it was only to try.
type Outcome string

const (
	// Accepted: it would take it.
	Accepted Outcome = "Accepted"
	// Denied: a quota, a policy, a webhook or its validation would refuse it.
	Denied Outcome = "Denied"
	// Unchecked: it was not, or could not be, tried.
	Unchecked Outcome = "Unchecked"
)

// Check is one write that the API server was to try.
type Check struct {
	Verb     plan.Verb     `json:"verb"`
	Resource plan.Resource `json:"resource"`
	Name     string        `json:"name"`
	Outcome  Outcome       `json:"outcome"`
	// Message is the API server's words, or why it was not tried.
	Message string `json:"message,omitempty"`
}
