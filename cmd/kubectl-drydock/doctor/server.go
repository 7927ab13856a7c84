package doctor

import "k8s.io/apimachinery/pkg/util/version"

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
