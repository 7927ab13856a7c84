package doctor

import "slices"

func accounts(f Facts) []Finding {
	a := f.Accounts
	return []Finding{
		present("accounts", a.Accounts, ServiceAccounts, reinstall),
		present("roles", a.ClusterRoles, ClusterRoles, reinstall),
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
	if absent := missing(ClusterBindings, a.Bindings.Value); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent), reinstall}
	}
	absent := missing(FunctionBindings, a.Bindings.Value)
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
