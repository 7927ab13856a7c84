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
	// applyPolicy (config/overlays/apply) turns applied templates into requests. fencePolicy (config/policy) protects Drydock's records.
	applyPolicy = "drydock-templates"
	fencePolicy = "drydock-records"
)

// mutatingVersions are the API versions of MutatingAdmissionPolicy, the newest first (kubernetes KEP-3962).
var mutatingVersions = []string{"v1", "v1beta1"}

// presence says whether an object exists.
type presence int

const (
	absent presence = iota
	present
	hidden // the user has no right to read it
)

// examined has the facts that doctor reads from the cluster.
type examined struct {
	Server string
	// Mutating is the API version of MutatingAdmissionPolicy; empty if the API server does not offer it.
	Mutating string
	// Apply is the presence of applyPolicy, Fences that of fencePolicy.
	Apply, Fences presence
}

// finding is a line of the output: the checked thing, its state, and the remedy if it needs one.
type finding struct {
	Subject, State, Remedy string
}

func newDoctor(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the cluster for the policies that Drydock uses",
		Long: "Show whether this cluster turns edited manifests into requests, and whether the policies that protect Drydock's records are\n" +
			"installed. The command reads the API server's versions and admission policies, and changes nothing.",
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

// examine reads the facts from the API server.
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
		if found.Apply, err = presenceOf(ctx, objects, "mutatingadmissionpolicies", version, applyPolicy); err != nil {
			return examined{}, err
		}
		break
	}
	found.Fences, err = presenceOf(ctx, objects, "validatingadmissionpolicies", "v1", fencePolicy)
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

// presenceOf reports whether the cluster-wide policy object exists.
func presenceOf(ctx context.Context, objects dynamic.Interface, resource, version, name string) (presence, error) {
	kind := schema.GroupVersionResource{Group: policyGroup, Version: version, Resource: resource}
	_, err := objects.Resource(kind).Get(ctx, name, metav1.GetOptions{})
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

// diagnose returns a finding for each check.
func diagnose(c examined) []finding {
	return []finding{{"server", "Kubernetes " + c.Server, ""}, diagnoseApply(c), diagnoseFences(c)}
}

func diagnoseApply(c examined) finding {
	f := finding{Subject: "edited manifests"}
	switch {
	case c.Mutating == "":
		f.State = "refused: this API server offers no MutatingAdmissionPolicy"
		f.Remedy = "request a resize with the annotation drydock.dev/resize. Or use Kubernetes 1.36, or 1.34 and later with " +
			"--feature-gates=MutatingAdmissionPolicy=true --runtime-config=" + policyGroup + "/v1beta1=true"
	case c.Apply == present:
		f.State = "turned into requests by MutatingAdmissionPolicy " + applyPolicy + " (" + c.Mutating + ")"
	case c.Apply == hidden:
		f.State, f.Remedy = "unknown: you may not read MutatingAdmissionPolicies", "ask an administrator"
	default:
		f.State, f.Remedy = "refused: MutatingAdmissionPolicy "+applyPolicy+" is not installed", "kubectl apply -k "+overlayOf(c.Mutating)
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
	f := finding{Subject: "policies"}
	switch c.Fences {
	case present:
		f.State = "installed"
	case hidden:
		f.State, f.Remedy = "unknown: you may not read ValidatingAdmissionPolicies", "ask an administrator"
	default:
		f.State = "ValidatingAdmissionPolicy " + fencePolicy + " is not installed: every user who may edit a StatefulSet can forge Drydock's " +
			"records"
		f.Remedy = "install Drydock from config or deploy/standalone, which contain the policies"
	}
	return f
}

func (t *tool) printFindings(all []finding) error {
	table := tabwriter.NewWriter(t.Out, 0, 0, 3, ' ', 0)
	for _, f := range all {
		fmt.Fprintln(table, strings.TrimRight(f.Subject+"\t"+f.State, "\t"))
		if f.Remedy != "" {
			fmt.Fprintln(table, "\t-> "+f.Remedy)
		}
	}
	return table.Flush()
}
