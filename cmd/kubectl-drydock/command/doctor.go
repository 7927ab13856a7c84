package command

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

const (
	policyGroup = "admissionregistration.k8s.io"
	// applyPolicy (config/overlays/apply) takes applied templates as requests. fencePolicy (config/policy) protects Drydock's records.
	applyPolicy = "drydock-templates"
	fencePolicy = "drydock-documents"
)

// mutatingVersions are the API versions of MutatingAdmissionPolicy, the newest first (kubernetes KEP-3962).
var mutatingVersions = []string{"v1", "v1beta1"}

// presence is whether an object is in the cluster.
type presence int

const (
	absent presence = iota
	present
	hidden // the user may not read it
)

// examined is what doctor has found.
type examined struct {
	Server string
	// Mutating is the API version of MutatingAdmissionPolicy in the cluster; empty if the cluster does not offer it.
	Mutating string
	// Apply is applyPolicy, Fences is fencePolicy.
	Apply, Fences presence
}

// finding is a line of doctor.
type finding struct {
	What, Is, Do string
}

func newDoctor(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check what this cluster offers to Drydock, and what is missing",
		Long: "Show whether an edited manifest is taken as a request, or only the annotation drydock.dev/resize; and whether the policies that protect\n" +
			"Drydock's records are installed. Reads the API server's versions and admission policies, and changes nothing.",
		Example: "  kubectl drydock doctor",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := t.examine(c.Context())
			if err != nil {
				return err
			}
			return t.printFindings(diagnose(found))
		},
	}
}

// examine asks the API server.
func (t *tool) examine(ctx context.Context) (examined, error) {
	config, err := t.config.ToRESTConfig()
	if err != nil {
		return examined{}, fmt.Errorf("finding the cluster: %w", err)
	}
	versions, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return examined{}, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return examined{}, err
	}
	server, err := versions.ServerVersion()
	if err != nil {
		return examined{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	found := examined{Server: server.GitVersion}
	for _, version := range mutatingVersions {
		offered, err := offers(versions, version)
		if err != nil {
			return examined{}, err
		}
		if !offered {
			continue
		}
		found.Mutating = version
		if found.Apply, err = look(ctx, objects, "mutatingadmissionpolicies", version, applyPolicy); err != nil {
			return examined{}, err
		}
		break
	}
	found.Fences, err = look(ctx, objects, "validatingadmissionpolicies", "v1", fencePolicy)
	return found, err
}

// offers reports whether the API server offers MutatingAdmissionPolicy in the version.
func offers(versions discovery.DiscoveryInterface, version string) (bool, error) {
	list, err := versions.ServerResourcesForGroupVersion(policyGroup + "/" + version)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s/%s: %w", policyGroup, version, err)
	}
	for _, r := range list.APIResources {
		if r.Name == "mutatingadmissionpolicies" {
			return true, nil
		}
	}
	return false, nil
}

func look(ctx context.Context, objects dynamic.Interface, resource, version, name string) (presence, error) {
	_, err := objects.Resource(schema.GroupVersionResource{Group: policyGroup, Version: version, Resource: resource}).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case apierrors.IsForbidden(err):
		return hidden, nil
	case err != nil:
		return absent, fmt.Errorf("reading %s %s: %w", resource, name, err)
	}
	return present, nil
}

// diagnose returns a line for each check, with what to do.
func diagnose(c examined) []finding {
	return []finding{{"server", "Kubernetes " + c.Server, ""}, diagnoseApply(c), diagnoseFences(c)}
}

func diagnoseApply(c examined) finding {
	f := finding{What: "edited manifests"}
	switch {
	case c.Mutating == "":
		f.Is = "refused: this API server offers no MutatingAdmissionPolicy"
		f.Do = "ask with the annotation drydock.dev/resize; or use Kubernetes 1.36, or 1.34 and later with --feature-gates=MutatingAdmissionPolicy=true " +
			"--runtime-config=" + policyGroup + "/v1beta1=true"
	case c.Apply == present:
		f.Is = "taken as requests, by MutatingAdmissionPolicy " + applyPolicy + " (" + c.Mutating + ")"
	case c.Apply == hidden:
		f.Is, f.Do = "unknown: you may not read MutatingAdmissionPolicies", "ask an administrator"
	default:
		f.Is, f.Do = "refused: MutatingAdmissionPolicy "+applyPolicy+" is not installed", "kubectl apply -k "+overlayOf(c.Mutating)
	}
	return f
}

func overlayOf(version string) string {
	if version == "v1" {
		return "config/overlays/apply"
	}
	return "config/overlays/apply-" + version
}

func diagnoseFences(c examined) finding {
	f := finding{What: "policies"}
	switch c.Fences {
	case present:
		f.Is = "installed"
	case hidden:
		f.Is, f.Do = "unknown: you may not read ValidatingAdmissionPolicies", "ask an administrator"
	default:
		f.Is = "ValidatingAdmissionPolicy " + fencePolicy + " is not installed: every user who may edit a StatefulSet can forge Drydock's records"
		f.Do = "install Drydock with config or deploy/standalone, which have the policies"
	}
	return f
}

func (t *tool) printFindings(all []finding) error {
	table := tabwriter.NewWriter(t.Out, 0, 0, 3, ' ', 0)
	for _, f := range all {
		fmt.Fprintln(table, strings.TrimRight(f.What+"\t"+f.Is, "\t"))
		if f.Do != "" {
			fmt.Fprintln(table, "\t-> "+f.Do)
		}
	}
	return table.Flush()
}
