// Package forecast tells the consequences of a resize of a StatefulSet without any of them: it runs the same preflight as detect-resize
// (shared/resize), builds the same objects as the functions (shared/resources), and estimates the bytes to copy and the time for which
// members would be stopped. It is pure; kubectl drydock plan reads, has the API server try, and prints.
package forecast

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
)

// Version is the version of the documents that this code makes. Fields are added without another one.
const Version = 1

// Verdict is what would become of the request.
type Verdict string

const (
	// Nothing: there is no request, or every claim fulfils it.
	Nothing Verdict = "Nothing"
	// Goes: the resize would begin, and nothing is known to be in its way.
	Goes Verdict = "Goes"
	// Waits: nothing would begin before the conditions in Before hold.
	Waits Verdict = "Waits"
	// Refused: the resize would not go through, for each of the reasons in Refused.
	Refused Verdict = "Refused"
)

// Document is what kubectl drydock plan -o json or yaml prints. Sizes and quantities are written as Kubernetes writes them, bytes and
// seconds as whole numbers. An absent field is empty, or about a thing that would not be touched.
type Document struct {
	Version   int     `json:"version"`
	Namespace string  `json:"namespace"`
	Set       string  `json:"set"`
	Request   string  `json:"request,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Before are conditions that must hold before anything would begin: the set opts in, the user asks, another operation ends.
	Before []resize.Problem `json:"before,omitempty"`
	// Refused are all reasons why the resize would be refused, or would fail.
	Refused []resize.Problem `json:"refused,omitempty"`
	// Warnings are what may go wrong.
	Warnings []string `json:"warnings,omitempty"`
	// Method is that of the operation: expand where no claim is copied, else copy. Absent where nothing would be done.
	Method api.Method `json:"method,omitempty"`
	Claims []Claim    `json:"claims,omitempty"`
	// Strategy and Cutover say how many members stop at once, and when. Absent where no claim is copied.
	Strategy api.Strategy `json:"strategy,omitempty"`
	Cutover  string       `json:"cutover,omitempty"`
	// MemberCheck is how members are asked whether they have caught up.
	MemberCheck string `json:"memberCheck,omitempty"`
	// Hooks are the Jobs that would run for each member: before it is stopped, and after it has started.
	Hooks []resources.Hook `json:"hooks,omitempty"`
	// Members have claims that are copied, in the order of their moves.
	Members   []Member             `json:"members,omitempty"`
	Templates []api.TemplateTarget `json:"templates,omitempty"`
	// Fields are what else the set is created again with, in the syntax of a request.
	Fields []string `json:"fields,omitempty"`
	// Recreate: the set would be created again around its running pods, with these templates.
	Recreate bool   `json:"recreate"`
	Owner    *Owner `json:"owner,omitempty"`
	Copy     Copy   `json:"copy"`
	Stop     Stop   `json:"stop"`
	// Budgets are the PodDisruptionBudgets that count the set's pods.
	Budgets []Budget `json:"budgets,omitempty"`
	// Suggestions are annotations that may suit the set better.
	Suggestions []string `json:"suggestions,omitempty"`
	// Quotas are the ResourceQuotas that count an object of the resize.
	Quotas []resize.Room `json:"quotas,omitempty"`
	// Checks are the API server's answers to dry runs of Drydock's writes.
	Checks []Check `json:"checks,omitempty"`
	// Assumed are assumptions in place of facts that could not be read.
	Assumed []string `json:"assumed,omitempty"`
}

// Claim is what would become of one claim.
type Claim struct {
	Name     string `json:"name"`
	Template string `json:"template"`
	// Method is expand for a claim that grows on its volume, copy for a claim that gets another volume.
	Method api.Method        `json:"method"`
	From   resource.Quantity `json:"from"`
	To     resource.Quantity `json:"to"`
	// Class and Modes are the present ones. NewClass and NewModes are set where they would differ.
	Class    string                              `json:"class,omitempty"`
	NewClass string                              `json:"newClass,omitempty"`
	Modes    []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	NewModes []corev1.PersistentVolumeAccessMode `json:"newModes,omitempty"`
	// Attributes is the present VolumeAttributesClass, NewAttributes the new one if it would differ.
	Attributes    string  `json:"attributes,omitempty"`
	NewAttributes *string `json:"newAttributes,omitempty"`
	// Volume is the present one. After a copy it is kept for a while.
	Volume string `json:"volume"`
	// Users are the pods that use it.
	Users []User `json:"users,omitempty"`
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

// Member is one ordinal whose claims are copied.
type Member struct {
	Ordinal int `json:"ordinal"`
	// Pod is the member's pod, and Node where it runs. Both are empty without a pod.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Ready is false for a pod that is not ready, and without one.
	Ready bool `json:"ready"`
	// Primary: the pod has the label of the primary.
	Primary bool `json:"primary,omitempty"`
	// Cold says why no first pass can be made beside the pod, so that its stop grows with its data; empty if one can.
	Cold string `json:"cold,omitempty"`
}

// Budget is a PodDisruptionBudget that counts the set's pods.
type Budget struct {
	Name string `json:"name"`
	// Allows is how many more pods it would allow to stop now.
	Allows int32 `json:"allows"`
	// Asked: each member is evicted, and waits until the budget allows it. Else members are stopped together, whatever it says.
	Asked bool `json:"asked"`
}

// Owner is what controls the set.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Paused: it would be paused, from before the first pass until the operation has ended.
	Paused bool `json:"paused"`
	// How says in words how, or why not.
	How string `json:"how"`
}

// Copy is how much there is to copy, in bytes. The estimate is Measured, and at most Unmeasured more.
type Copy struct {
	Claims int `json:"claims"`
	// Measured are the bytes that the kubelets say are in use.
	Measured int64 `json:"measured"`
	// Unmeasured is the capacity of the claims whose use is not known.
	Unmeasured int64 `json:"unmeasured"`
}

// Outcome is the API server's answer to a dry run.
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
