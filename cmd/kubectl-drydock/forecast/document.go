// Package forecast predicts the consequences of a resize of a StatefulSet. It runs the same preflight as detect-resize (shared/resize), and
// builds the same objects as the functions (shared/resources). It estimates the bytes to copy and the time that members are stopped.
//
// The package is pure: kubectl drydock plan reads the live objects, has the API server try the writes, and prints the forecast.
package forecast

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
)

// Version is the version of the Document format. New fields do not change it.
const Version = 1

// Verdict is the predicted result of the request.
type Verdict string

const (
	// Nothing: there is no request, or nothing to do for it.
	Nothing Verdict = "Nothing"
	// Proceeds: the resize would begin, and no obstacle is known.
	Proceeds Verdict = "Proceeds"
	// Waits: nothing would begin before the conditions in Before hold.
	Waits Verdict = "Waits"
	// Refused: the resize would be refused or would fail, for each of the reasons in Refused.
	Refused Verdict = "Refused"
)

// Document is the output of kubectl drydock plan -o json or yaml. Sizes and quantities have Kubernetes' format. Bytes and seconds are whole
// numbers. A field is absent if it is empty, or if the resize would not touch its object.
type Document struct {
	Version   int     `json:"version"`
	Namespace string  `json:"namespace"`
	Set       string  `json:"set"`
	Request   string  `json:"request,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Conditions are conditions that must hold before the resize can begin: the set opts in, the user requests it, another operation ends.
	Conditions []resize.Problem `json:"before,omitempty"`
	// Refused are all reasons why the resize would be refused or would fail.
	Refused []resize.Problem `json:"refused,omitempty"`
	// Warnings are possible problems, and consequences that may surprise the user.
	Warnings []string `json:"warnings,omitempty"`
	// Method is the method of the operation: expand, expand-offline, or copy if any claim is copied. It is absent if there is nothing to do.
	Method api.Method `json:"method,omitempty"`
	Claims []Claim    `json:"claims,omitempty"`
	// Strategy and Cutover say how many members stop at a time, and when. They are absent if no member stops.
	Strategy api.Strategy `json:"strategy,omitempty"`
	Cutover  string       `json:"cutover,omitempty"`
	// MemberCheck is the check that shows whether a member has caught up.
	MemberCheck string `json:"memberCheck,omitempty"`
	// Hooks are the Jobs that would run for each member: before it is stopped, and after it has started.
	Hooks []resources.Hook `json:"hooks,omitempty"`
	// Members are the members that stop, in the order of their moves.
	Members   []Member             `json:"members,omitempty"`
	Templates []api.TemplateTarget `json:"templates,omitempty"`
	// Fields are the other changes of the recreated set, in the syntax of a request.
	Fields []string `json:"fields,omitempty"`
	// Recreate says whether the set would be recreated around its running pods, with Templates and Fields.
	Recreate bool   `json:"recreate"`
	Owner    *Owner `json:"owner,omitempty"`
	Copy     Copy   `json:"copy"`
	Stop     Stop   `json:"stop"`
	// Budgets are the PodDisruptionBudgets that select the set's pods.
	Budgets []Budget `json:"budgets,omitempty"`
	// Suggestions are annotations that may suit the set better.
	Suggestions []string `json:"suggestions,omitempty"`
	// Quotas are the ResourceQuotas that limit an object of the resize.
	Quotas []resize.QuotaRoom `json:"quotas,omitempty"`
	// Checks are the API server's answers to dry runs of Drydock's writes.
	Checks []Check `json:"checks,omitempty"`
	// Assumed are the assumptions that replace unreadable facts.
	Assumed []string `json:"assumed,omitempty"`
}

// Claim is the forecast for one claim.
type Claim struct {
	Name     string `json:"name"`
	Template string `json:"template"`
	// Method is expand or expand-offline for a claim that keeps its volume, and copy for a claim that gets another volume.
	Method api.Method        `json:"method"`
	From   resource.Quantity `json:"from"`
	To     resource.Quantity `json:"to"`
	// Class and Modes are the present ones. NewClass and NewModes are set if they would differ.
	Class    string                              `json:"class,omitempty"`
	NewClass string                              `json:"newClass,omitempty"`
	Modes    []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	NewModes []corev1.PersistentVolumeAccessMode `json:"newModes,omitempty"`
	// Attributes is the present VolumeAttributesClass, NewAttributes the new one if it would differ.
	Attributes    string  `json:"attributes,omitempty"`
	NewAttributes *string `json:"newAttributes,omitempty"`
	// Volume is the present volume. After a copy it is retained for a while.
	Volume string `json:"volume"`
	// Users are the pods that use the claim.
	Users []User `json:"users,omitempty"`
	// Used is the usage of its file system in bytes, as the kubelet measures it; absent if it is unknown.
	Used *int64 `json:"used,omitempty"`
	// Capacity is the size of its volume in bytes, which limits the bytes to copy.
	Capacity int64 `json:"capacity"`
}

// User is a pod that uses a claim.
type User struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
	// Foreign says whether the pod does not belong to the set.
	Foreign bool `json:"foreign,omitempty"`
}

// Member is the forecast for a member that stops.
type Member struct {
	Ordinal int `json:"ordinal"`
	// Pod is the member's pod, and Node the node where it runs. Both are empty if there is no pod.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Ready is false if there is no pod.
	Ready bool `json:"ready"`
	// Primary says whether the pod has the label of the primary.
	Primary bool `json:"primary,omitempty"`
	// NoFirstPass says why the member gets no first pass while it runs; empty if it gets one. Without a first pass, its stop takes longer
	// the more data it has.
	NoFirstPass string `json:"noFirstPass,omitempty"`
}

// Budget is a PodDisruptionBudget that selects the set's pods.
type Budget struct {
	Name string `json:"name"`
	// Allows is the number of pods that it allows to stop now.
	Allows int32 `json:"allows"`
	// Enforced says whether each stop is an eviction, which waits until the budget allows it. The strategy whole stops all members together
	// and ignores the budget.
	Enforced bool `json:"asked"`
}

// Owner is the object that controls the set.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Paused says whether it would be paused, from before the first pass until the end of the operation.
	Paused bool `json:"paused"`
	// How says how it would be paused, or why it would not.
	How string `json:"how"`
	// Then says what ends the pause after the resize. It is empty if the end of the resize does.
	Then string `json:"then,omitempty"`
}

// pausesOwner reports whether the operator of the set would be paused.
func (d *Document) pausesOwner() bool { return d.Owner != nil && d.Owner.Paused }

// Copy is the estimate of the bytes to copy: Measured, and at most Unmeasured more.
type Copy struct {
	Claims int `json:"claims"`
	// Measured is the usage that the kubelets measure, in bytes.
	Measured int64 `json:"measured"`
	// Unmeasured is the capacity of the claims without a measured usage, in bytes.
	Unmeasured int64 `json:"unmeasured"`
}

// Outcome is the API server's answer to a dry run.
type Outcome string

const (
	// Accepted: it would accept the write.
	Accepted Outcome = "Accepted"
	// Denied: a quota, a policy, a webhook or the validation would refuse the write.
	Denied Outcome = "Denied"
	// Unchecked: the write was not tried, or could not be.
	Unchecked Outcome = "Unchecked"
)

// Check is one write and the answer to its dry run.
type Check struct {
	Verb     plan.Verb     `json:"verb"`
	Resource plan.Resource `json:"resource"`
	Name     string        `json:"name"`
	Outcome  Outcome       `json:"outcome"`
	// Message is the API server's message, or says why the write was not tried.
	Message string `json:"message,omitempty"`
}

// Stop is the estimate of the time that members are stopped. From and To follow from observations (Basis) and assumptions (Assumed). The
// parts in Excluded come on top of both.
type Stop struct {
	// None says whether no member is stopped.
	None bool `json:"none"`
	// Together says whether the members stop at the same time. From and To are then for all members, else for each member.
	Together bool `json:"together"`
	// Members is the number of members that are stopped.
	Members int `json:"members"`
	// From and To are in seconds. To assumes the longest time for each part.
	From int64 `json:"fromSeconds"`
	To   int64 `json:"toSeconds"`
	// Observed are observations.
	Observed []string `json:"basis,omitempty"`
	// Assumed are assumptions.
	Assumed []string `json:"assumed,omitempty"`
	// Excluded are parts that the estimate does not include.
	Excluded []string `json:"besides,omitempty"`
}
