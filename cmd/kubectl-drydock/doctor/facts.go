package doctor

import (
	"time"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// Facts are the facts about the cluster, as the command read them.
type Facts struct {
	Now time.Time
	// Namespace is the namespace of the user's sets. It is empty for every namespace.
	Namespace string
	// Expected are the parts that an installation of this version has.
	Expected  install.Parts
	Server    Server
	Installed Installed
	Tick      Tick
	Policies  Policies
	Accounts  Accounts
	// Rights are the rights that the user lacks.
	Rights Answer[[]Right]
	// Settings is the content of the ConfigMap drydock-settings. It is nil if the ConfigMap does not exist.
	Settings Answer[map[string]string]
	Classes  Answer[[]Class]
	Images   Images
	Owners   Answer[[]Owner]
	// OwnersMistake says why the rows of DRYDOCK_OWNERS cannot be used. It is empty if they can.
	OwnersMistake string
	// Unlabelled are the opted-in sets whose operator removes the label, and whose resource lacks it.
	Unlabelled []Unlabelled
}

// Unlabelled is a set that will lose its label.
type Unlabelled struct {
	Set string
	// Command gives the resource the label.
	Command string
}

// Server has the versions of the API server.
type Server struct {
	// Version is the version of Kubernetes, for example v1.36.0.
	Version string
	// Mutating is the version of MutatingAdmissionPolicy. It is empty if the API server does not offer the kind.
	Mutating Answer[string]
	// AttributesClasses and Scalers say whether the API server offers the kinds storage.k8s.io/v1 VolumeAttributesClass and
	// drydock.dev/v1alpha1 Scaler.
	AttributesClasses, Scalers Answer[bool]
}

// Installed has the parts of Drydock in namespace drydock.
type Installed struct {
	// Deployment is nil if deploy/standalone is not installed.
	Deployment Answer[*Deployment]
	// Leases are the Leases drydock-standalone of all namespaces.
	Leases Answer[[]Lease]
	// The parts of an installation on Knative. They are empty without Knative.
	Services, Triggers, Brokers, APISources, PingSources Answer[[]Part]
}

// Deployment is the Deployment of deploy/standalone.
type Deployment struct{ Replicas, Ready int32 }

// Lease shows which process works.
type Lease struct {
	Namespace string
	// Holder is the identity of the process. It is empty after a release.
	Holder            string
	Acquired, Renewed time.Time
}

// Part is a Knative object with its condition Ready.
type Part struct {
	Name  string
	Ready bool
	// Message says why it is not ready.
	Message string
}

// Tick has the facts about the latest ticks.
type Tick struct {
	// Logs are the logs of the pods that may have heard the tick, for the last two minutes.
	Logs Answer[[]Log]
	// SiftChanged is when Knative last started or stopped the pods of sift. It is zero if Knative does not say.
	SiftChanged Answer[time.Time]
}

// Log has the facts about ticks in the log of a pod.
type Log struct {
	Pod string
	// Since is when the pod began to hear ticks.
	Since time.Time
	// Heard says whether the log has a tick.
	Heard bool
	// Error is the error of the latest tick, or empty.
	Error string
}

// Policies has the admission policies.
type Policies struct {
	// Apply says whether MutatingAdmissionPolicy drydock-templates exists.
	Apply Answer[bool]
	// Validating has the names of the ValidatingAdmissionPolicies.
	Validating Answer[[]string]
	Bindings   Answer[[]Binding]
	// Different are the policies whose text in the cluster, or that of their binding, is not the text of this version.
	Different Answer[[]string]
}

// Binding is a ValidatingAdmissionPolicyBinding.
type Binding struct {
	Policy string
	// Denies says whether the binding rejects the requests that the policy forbids. Other bindings only warn or audit.
	Denies bool
}

// Accounts has the names of accounts, roles and bindings.
type Accounts struct {
	// Accounts are the service accounts of namespace drydock.
	Accounts     Answer[[]string]
	ClusterRoles Answer[[]string]
	Bindings     Answer[[]string]
	// NamespaceBindings are the RoleBindings in the namespace of the user's sets.
	NamespaceBindings Answer[[]string]
}

// Class is a StorageClass.
type Class struct {
	Name                string
	Default, Expandable bool
}

// Images has the images of pods and movers.
type Images struct {
	// Waiting are pods whose image cannot be pulled: those of namespace drydock, and movers in the namespace of the user's sets.
	Waiting Answer[[]Waiting]
	// Allowed are the images of movers that the Role drydock-mover-image names.
	Allowed Answer[[]string]
}

// Waiting is a pod whose image cannot be pulled.
type Waiting struct{ Namespace, Pod, Image, Reason string }

// Owner is a kind of custom resource that controls opted-in sets of a namespace.
type Owner struct {
	Namespace, Group, Kind string
	// Operator and Plural come from the table of owners. They are empty if no row names the kind.
	Operator, Plural string
	// Verbs are the rights that pause-owner needs.
	Verbs []string
	// Lacking are the verbs that it does not have.
	Lacking []string
	// Sets counts the sets.
	Sets int
	// Updates is true if a set asks Drydock to write its size and class into the custom resource.
	Updates bool
	// Forbids is true if the namespace does not allow a pause, and ForbidsUpdates if it does not allow what Updates asks for.
	Forbids, ForbidsUpdates bool
}

// Right is a right to objects of the API server.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace is empty for a right in every namespace, and for objects without a namespace.
	Namespace string
	// Commands are the subcommands that need the right, for messages.
	Commands string
}

// String returns the right as in a message: "get pods/log in namespace drydock".
func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource
	}
	return r.Verb + " " + resource + " in namespace " + r.Namespace
}

// Answer is a fact, or the reason why it is unknown.
type Answer[T any] struct {
	Value T
	// Denied is the right that the user lacks. It is nil if the user may read the fact.
	Denied *Right
	// Failed is the error of the read, or empty.
	Failed string
}

// Known reports whether the fact was read.
func (a Answer[T]) Known() bool { return a.Denied == nil && a.Failed == "" }

// Convert returns the answer with a converted value.
func Convert[A, B any](a Answer[A], convert func(A) B) Answer[B] {
	b := Answer[B]{Denied: a.Denied, Failed: a.Failed}
	if a.Known() {
		b.Value = convert(a.Value)
	}
	return b
}

// unknown returns the finding for a fact that was not read.
func (a Answer[T]) unknown(subject string) Finding {
	f := Finding{Subject: subject, Level: Unknown}
	switch {
	case a.Denied != nil:
		f.State, f.Remedy = "you may not "+a.Denied.String(), "ask an administrator for this right"
	default:
		f.State, f.Remedy = "it cannot be read: "+a.Failed, "run the command again"
	}
	return f
}

// OptionalPolicies reject requests too. Without them, Drydock loses no data.
var OptionalPolicies = []string{"drydock-held-scales", "drydock-held-sets", "drydock-scaled-scales", "drydock-scaled-sets",
	"drydock-sleeping-sets"}
