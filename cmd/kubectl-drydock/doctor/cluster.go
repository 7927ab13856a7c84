package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// oldest is the oldest version of Kubernetes with all API versions that Drydock needs.
const oldest = "1.30.0"

func server(s Server) []Finding {
	return []Finding{kubernetes(s.Version), scalers(s.Scalers), attributes(s.AttributesClasses)}
}

func kubernetes(running string) Finding {
	f := Finding{Subject: "server", Level: OK, State: "Kubernetes " + running}
	parsed, err := version.ParseGeneric(running)
	switch {
	case err != nil:
		f.Level, f.Remedy = Unknown, "compare it with 1.30, the oldest version that can work"
	case parsed.LessThan(version.MustParseGeneric(oldest)):
		f.Level, f.Remedy = Problem, "upgrade Kubernetes to 1.30 or newer"
	}
	return f
}

func scalers(offered Answer[bool]) Finding {
	const subject = "scalers"
	switch {
	case !offered.Known():
		return offered.unknown(subject)
	case !offered.Value:
		return Finding{subject, Problem, "the CustomResourceDefinition of Scalers is not installed", reinstall}
	}
	return Finding{subject, OK, "the API server offers drydock.dev/v1alpha1", ""}
}

func attributes(offered Answer[bool]) Finding {
	const subject = "attributes classes"
	switch {
	case !offered.Known():
		return offered.unknown(subject)
	case !offered.Value:
		return Finding{subject, Note, "no request can name a VolumeAttributesClass: the API server does not offer storage.k8s.io/v1", ""}
	}
	return Finding{subject, OK, "the API server offers storage.k8s.io/v1", ""}
}

func policies(f Facts) []Finding {
	return []Finding{fences(f.Expected, f.Policies), edited(f)}
}

// fences checks that the ValidatingAdmissionPolicies are installed and have a binding that denies. Without one, a policy rejects nothing.
func fences(expected install.Parts, p Policies) Finding {
	const subject = "policies"
	optional := func(name string) bool { return slices.Contains(OptionalPolicies, name) }
	essential := slices.DeleteFunc(slices.Clone(expected.Policies), optional)
	switch {
	case !p.Validating.Known():
		return p.Validating.unknown(subject)
	case !p.Bindings.Known():
		return p.Bindings.unknown(subject)
	}
	if absent := missing(essential, p.Validating.Value); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent) + ". Users can forge Drydock's records, or a stolen token can do more",
			reinstall}
	}
	if unbound := missing(essential, p.enforced()); len(unbound) > 0 {
		return Finding{subject, Problem, "no binding that denies, so they reject nothing: " + list(unbound), reinstall}
	}
	absent := append(missing(OptionalPolicies, both(p.Validating.Value, p.enforced())), missing(expected.Warnings, p.Validating.Value)...)
	if len(absent) > 0 {
		return Finding{subject, Note, "those that protect data are in force. Not in force: " + list(absent), reinstall}
	}
	if !p.Different.Known() {
		return p.Different.unknown(subject)
	}
	if different := p.Different.Value; len(different) > 0 {
		return Finding{subject, Note, "of another version than this command, or changed by a user: " + list(different), reinstall}
	}
	return Finding{subject, OK, fmt.Sprintf("all %d are in force", len(expected.Policies)+len(expected.Warnings)), ""}
}

// enforced returns the names of the policies with a binding that denies.
func (p Policies) enforced() []string {
	var enforced []string
	for _, b := range p.Bindings.Value {
		if b.Denies {
			enforced = append(enforced, b.Policy)
		}
	}
	return enforced
}

// both returns the names that are in both lists.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// edited checks whether applying an edited manifest requests a resize. This is optional, because an annotation can request it, too.
func edited(f Facts) Finding {
	const subject = "edited manifests"
	version, apply := f.Server.Mutating, f.Policies.Apply
	switch {
	case !version.Known():
		return version.unknown(subject)
	case version.Value == "":
		return Finding{subject, Note, "refused: this API server offers no MutatingAdmissionPolicy",
			"request a resize with the annotation drydock.dev/resize, or use Kubernetes 1.36, or 1.34 and later with " +
				"--feature-gates=MutatingAdmissionPolicy=true --runtime-config=admissionregistration.k8s.io/v1beta1=true"}
	case !apply.Known():
		return apply.unknown(subject)
	case !apply.Value:
		return Finding{subject, Note, "refused: MutatingAdmissionPolicy drydock-templates is not installed",
			reinstall}
	}
	return Finding{subject, OK, "turned into requests by MutatingAdmissionPolicy drydock-templates (" + version.Value + ")", ""}
}

func storage(f Facts) []Finding {
	return []Finding{classes(f.Classes), moverImage(f), pulls(f.Images.Waiting)}
}

func classes(found Answer[[]Class]) Finding {
	const subject = "classes"
	if !found.Known() {
		return found.unknown(subject)
	}
	var defaults, fixed []string
	for _, c := range found.Value {
		if c.Default {
			defaults = append(defaults, c.Name)
		}
		if !c.Expandable {
			fixed = append(fixed, c.Name)
		}
	}
	f := Finding{Subject: subject, Level: OK, State: fmt.Sprintf("default %s; volumes of every class can grow in place", list(defaults))}
	if len(fixed) > 0 {
		f.State = fmt.Sprintf("default %s; volumes of %s cannot grow in place, so Drydock copies them", list(defaults), list(fixed))
	}
	switch {
	case len(found.Value) == 0:
		return Finding{subject, Note, "the cluster has no StorageClass, so Drydock cannot create volumes",
			"install a CSI driver and a StorageClass"}
	case len(defaults) == 0:
		f.Level, f.State = Note, "no default"+f.State[len("default "):]
		f.Remedy = "name a class in each volumeClaimTemplate, or mark a StorageClass as default"
	case len(defaults) > 1:
		f.Level, f.Remedy = Note, "keep one default StorageClass. Kubernetes takes the newest"
	}
	return f
}

// moverImage checks the image of the pods that copy volumes. The policies accept only images that the Role names.
func moverImage(f Facts) Finding {
	const subject = "mover image"
	allowed := slices.DeleteFunc(slices.Clone(f.Images.Allowed.Value), func(image string) bool { return image == "unset" || image == "" })
	image := f.Settings.Value["DRYDOCK_IMAGE"]
	switch {
	case !f.Images.Allowed.Known():
		return f.Images.Allowed.unknown(subject)
	case len(allowed) == 0:
		return Finding{subject, Problem, "Role drydock-mover-image allows no image, so no volume can be copied", reinstall}
	case !f.Settings.Known():
		return f.Settings.unknown(subject)
	case f.Settings.Value != nil && image == "":
		return Finding{subject, Problem, "ConfigMap drydock-settings does not set DRYDOCK_IMAGE, so no volume can be copied",
			reinstall}
	case image != "" && !slices.Contains(allowed, image):
		return Finding{subject, Problem, "Role drydock-mover-image does not allow DRYDOCK_IMAGE " + image + ", so no volume can be copied",
			reinstall}
	case image == "":
		return Finding{subject, OK, "allowed: " + list(allowed), ""}
	}
	return Finding{subject, OK, image, ""}
}

// pulls lists the pods that wait for their image.
func pulls(found Answer[[]Waiting]) Finding {
	const subject = "images"
	if !found.Known() {
		return found.unknown(subject)
	}
	if len(found.Value) == 0 {
		return Finding{subject, OK, "no pod waits for its image", ""}
	}
	var waiting []string
	for _, w := range found.Value {
		waiting = append(waiting, fmt.Sprintf("pod %s/%s: %s (%s)", w.Namespace, w.Pod, w.Image, w.Reason))
	}
	first := found.Value[0]
	return Finding{subject, Problem, "they cannot be pulled: " + list(waiting),
		"kubectl -n " + first.Namespace + " describe pod " + first.Pod + " shows why. Correct the image, or give the namespace a pull secret"}
}

func accounts(f Facts) []Finding {
	a := f.Accounts
	return []Finding{
		present("accounts", a.Accounts, f.Expected.Accounts, reinstall),
		present("roles", a.ClusterRoles, f.Expected.ClusterRoles, reinstall),
		bindings(f),
	}
}

// present checks that the expected names exist.
func present(subject string, found Answer[[]string], expected []string, create string) Finding {
	if !found.Known() {
		return found.unknown(subject)
	}
	if absent := missing(expected, found.Value); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent), create}
	}
	return Finding{subject, OK, "all are installed", ""}
}

// bindings checks the rights of the functions. In an installation for one namespace, most of their bindings are RoleBindings there.
func bindings(f Facts) Finding {
	const subject = "bindings"
	a := f.Accounts
	if !a.Bindings.Known() {
		return a.Bindings.unknown(subject)
	}
	if absent := missing(f.Expected.Bindings, a.Bindings.Value); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent), reinstall}
	}
	absent := missing(f.Expected.FunctionBindings, a.Bindings.Value)
	switch {
	case len(absent) == 0:
		return Finding{subject, OK, "the functions have their rights in every namespace", ""}
	case !a.NamespaceBindings.Known():
		return a.NamespaceBindings.unknown(subject)
	case f.Namespace == "":
		return Finding{subject, Note, "the functions have no rights in every namespace: " + list(absent) + " are not bound",
			"run the command for one namespace, with -n. For every namespace: kubectl apply -k config/bindings"}
	}
	absent = missing(absent, a.NamespaceBindings.Value)
	if optional := slices.Equal(absent, []string{"drydock-progress"}); optional {
		return Finding{subject, Note, "drydock-progress is not bound, so a resize does not show the progress of a copy",
			"kubectl apply -k config/bindings"}
	}
	if len(absent) > 0 {
		return Finding{subject, Problem, "the functions lack rights in namespace " + f.Namespace + ": " + list(absent) + " are not bound",
			"every namespace: kubectl apply -k config/bindings. One namespace: kubectl apply -k config/overlays/namespace"}
	}
	return Finding{subject, OK, "the functions have their rights in namespace " + f.Namespace, ""}
}
