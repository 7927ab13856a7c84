package doctor

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
