// Package policies judges writes by the admission policies of config, with Kubernetes' own code.
package policies

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"drydock.dev/test/kit/apiserver"
)

// Policies are ValidatingAdmissionPolicies that deny, compiled by Kubernetes' own code.
type Policies struct {
	all    []policy
	grants func(user, group, resource, verb string) bool
}

type policy struct {
	admissionv1.ValidatingAdmissionPolicy
	validator validating.Validator
}

// Load reads the policies in the YAML files of a folder. Policies whose binding only warns are left out. grants says whether a user
// has a right that a policy asks for.
func Load(folder string, grants func(user, group, resource, verb string) bool) (*Policies, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no policies: %w", folder, err)
	}
	loaded := &Policies{grants: grants}
	denies := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var p admissionv1.ValidatingAdmissionPolicy
			var b admissionv1.ValidatingAdmissionPolicyBinding
			if err := yaml.Unmarshal([]byte(document), &p); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			switch p.Kind {
			case "ValidatingAdmissionPolicy":
				loaded.all = append(loaded.all, policy{p, compile(&p)})
			case "ValidatingAdmissionPolicyBinding":
				if err := yaml.Unmarshal([]byte(document), &b); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				denies[b.Spec.PolicyName] = slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
			}
		}
	}
	loaded.all = slices.DeleteFunc(loaded.all, func(p policy) bool { return !denies[p.Name] })
	return loaded, nil
}

// compile does what Kubernetes does with a policy (kubernetes apiserver pkg/admission/plugin/policy/validating, compilePolicy).
func compile(p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		panic(err)
	}
	with := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, with, environment.StoredExpressions)
	conditions := make([]cel.ExpressionAccessor, len(p.Spec.MatchConditions))
	for i := range p.Spec.MatchConditions {
		conditions[i] = (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i])
	}
	validations, messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations)), make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	return validating.NewValidator(compiler.CompileCondition(validations, with, environment.StoredExpressions),
		matchconditions.NewMatcher(compiler.CompileCondition(conditions, with, environment.StoredExpressions), p.Spec.FailurePolicy, "policy",
			"validate", p.Name),
		compiler.CompileCondition(nil, with, environment.StoredExpressions),
		compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{}, environment.StoredExpressions), p.Spec.FailurePolicy)
}

// Admit returns the error of the first policy that denies the write.
func (p *Policies) Admit(w apiserver.Write) error {
	resource := w.Kind.GroupVersion().WithResource(w.Resource)
	for i := range p.all {
		if !p.all[i].matches(resource, w) {
			continue
		}
		attributes := admission.NewAttributesRecord(orNil(w.After), orNil(w.Before), w.Kind, w.Namespace, w.Name, resource, w.Part,
			admission.Operation(w.Operation), w.Options, w.DryRun, &user.DefaultInfo{Name: w.By.User})
		versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: w.Kind, VersionedObject: orNil(w.After),
			VersionedOldObject: orNil(w.Before)}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
		result := p.all[i].validator.Validate(context.Background(), resource, versioned, nil, namespace, celconfig.RuntimeCELCostBudget,
			grants{p.grants})
		for _, decision := range result.Decisions {
			if decision.Action == validating.ActionDeny {
				return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
					Details: &metav1.StatusDetails{Group: w.Kind.Group, Kind: w.Resource, Name: w.Name},
					Message: fmt.Sprintf("%s %q is forbidden: ValidatingAdmissionPolicy '%s' with binding '%[3]s' denied request: %s", w.Resource,
						w.Name, p.all[i].Name, decision.Message)}}
			}
		}
	}
	return nil
}

// orNil returns a nil interface for a nil object.
func orNil(o *apiserver.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return o
}

// matches reports whether the policy is asked about the request (kubernetes apiserver pkg/admission/plugin/policy/matching).
func (p *policy) matches(resource schema.GroupVersionResource, w apiserver.Write) bool {
	match := p.Spec.MatchConstraints
	if selector, err := metav1.LabelSelectorAsSelector(match.NamespaceSelector); match.NamespaceSelector != nil && w.Namespace != "" &&
		(err != nil || !selector.Matches(labels.Set{corev1.LabelMetadataName: w.Namespace})) {
		return false
	}
	if selector, err := metav1.LabelSelectorAsSelector(match.ObjectSelector); match.ObjectSelector != nil &&
		(err != nil || !selects(selector, w.After) && !selects(selector, w.Before)) {
		return false
	}
	return slices.ContainsFunc(match.ResourceRules, func(rule admissionv1.NamedRuleWithOperations) bool {
		name := resource.Resource
		if w.Part != "" {
			name += "/" + w.Part
		}
		return has(rule.APIGroups, resource.Group) && has(rule.APIVersions, resource.Version) && (has(rule.Resources, name) ||
			w.Part != "" && has(rule.Resources, resource.Resource+"/*")) &&
			slices.ContainsFunc(rule.Operations, func(o admissionv1.OperationType) bool {
				return o == admissionv1.OperationAll || string(o) == w.Operation
			})
	})
}

func has(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

func selects(selector labels.Selector, o *apiserver.Object) bool {
	return o != nil && selector.Matches(labels.Set(o.GetLabels()))
}

// grants answers the questions that a policy asks by the variable authorizer.
type grants struct {
	granted func(user, group, resource, verb string) bool
}

func (g grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if g.granted(a.GetUser().GetName(), a.GetAPIGroup(), a.GetResource(), a.GetVerb()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}
