package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/text"
)

// doctoring holds the state of kubectl drydock doctor.
type doctoring struct {
	*tool
	all    bool
	output string
}

func newDoctor(t *tool) *cobra.Command {
	o := &doctoring{tool: t}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation of Drydock, and show the remedy for each problem",
		Long: "Check the API server, the installation, the tick, policies, accounts, your rights, StorageClasses, images and the operators of\n" +
			"sets. Each line is ok, a note, unknown or a problem, with its remedy. A note is about an optional part. What you may not read\n" +
			"is unknown. The command changes nothing. It fails only if it finds a problem.",
		Example: "  kubectl drydock doctor\n  kubectl drydock doctor -n shop\n  kubectl drydock doctor -A -o yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "check the sets and movers of every namespace")
	addOutput(c.Flags(), &o.output, "json or yaml", "json", "yaml")
	return c
}

func (o *doctoring) run(ctx context.Context) error {
	o.config.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS, config.Burst = 50, 100 // the checks are many small requests
		return config
	}
	s, err := o.connect()
	if err != nil {
		return err
	}
	if o.all {
		s.namespace = metav1.NamespaceAll
	}
	facts, err := s.examination().facts(ctx, o.now())
	if err != nil {
		return err
	}
	findings := doctor.Diagnose(facts)
	if o.output == "" {
		err = printFindings(o.Out, findings)
	} else {
		err = printAs(o.Out, doctor.Document{Version: doctor.Version, Findings: findings}, o.output)
	}
	if err != nil {
		return err
	}
	if problems := doctor.Problems(findings); len(problems) > 0 {
		return fmt.Errorf("the checks found problems: %s", strings.Join(problems, ", "))
	}
	return nil
}

// printFindings prints a line for each finding, and another one for its remedy.
func printFindings(out io.Writer, findings []doctor.Finding) error {
	const gap = "   "
	var subjects, levels int // the widths of the columns
	for _, f := range findings {
		subjects, levels = max(subjects, len(f.Subject)), max(levels, len(f.Level))
	}
	screen := terminal.New(out)
	for _, f := range findings {
		level := screen.Styled(levelStyle(f.Level), string(f.Level)) + strings.Repeat(" ", levels-len(f.Level))
		lines := fmt.Sprintf("%-*s%s%s%s%s\n", subjects, f.Subject, gap, level, gap, f.State)
		if f.Remedy != "" {
			lines += fmt.Sprintf("%*s-> %s\n", subjects+levels+2*len(gap), "", f.Remedy)
		}
		if _, err := io.WriteString(out, lines); err != nil {
			return err
		}
	}
	return nil
}

func levelStyle(level doctor.Level) terminal.Style {
	switch level {
	case doctor.OK:
		return terminal.Good
	case doctor.Problem:
		return terminal.Bad
	}
	return terminal.Attention
}

// pageSize is how many objects a list returns at once.
const pageSize = 500

// logLimit is how many bytes of a log are read.
const logLimit = 8 << 20

// kindOf returns the resource of an API group.
func kindOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// unread returns the answer for an error of a read.
func unread[T any](err error, right doctor.Right) doctor.Answer[T] {
	if apierrors.IsForbidden(err) {
		return doctor.Answer[T]{Denied: &right}
	}
	return doctor.Answer[T]{Failed: text.Printable(err.Error())}
}

func rightTo(verb string, kind schema.GroupVersionResource, namespace string) doctor.Right {
	return doctor.Right{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace}
}

// listed reads the objects of a kind. It returns none if the API server does not have the kind.
func listed[T any](ctx context.Context, s *session, kind schema.GroupVersionResource, namespace string,
	options metav1.ListOptions,
) doctor.Answer[[]T] {
	var answer doctor.Answer[[]T]
	options.Limit = pageSize
	for {
		page, err := s.objects.Resource(kind).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return answer
		}
		if err != nil {
			return unread[[]T](err, rightTo("list", kind, namespace))
		}
		for i := range page.Items {
			object, err := decoded[T](&page.Items[i])
			if err != nil {
				return unread[[]T](err, doctor.Right{})
			}
			answer.Value = append(answer.Value, *object)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return answer
		}
	}
}

// one reads one object. It returns nil if the object does not exist.
func one[T any](ctx context.Context, s *session, kind schema.GroupVersionResource, namespace, name string) doctor.Answer[*T] {
	found, err := s.objects.Resource(kind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return doctor.Answer[*T]{}
	case err != nil:
		return unread[*T](err, rightTo("get", kind, namespace))
	}
	object, err := decoded[T](found)
	if err != nil {
		return unread[*T](err, doctor.Right{})
	}
	return doctor.Answer[*T]{Value: object}
}

func decoded[T any](object *unstructured.Unstructured) (*T, error) {
	into := new(T)
	return into, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// names reads the names of the objects of a kind.
func names(ctx context.Context, s *session, kind schema.GroupVersionResource, namespace string) doctor.Answer[[]string] {
	found := listed[metav1.PartialObjectMetadata](ctx, s, kind, namespace, metav1.ListOptions{})
	return doctor.Convert(found, func(all []metav1.PartialObjectMetadata) []string {
		var names []string
		for i := range all {
			names = append(names, all[i].Name)
		}
		return names
	})
}

// offers reports whether the API server offers the resource in the API version.
func (s *session) offers(ctx context.Context, version, resource string) doctor.Answer[bool] {
	body, found, err := s.raw.get(ctx, "/apis/"+version)
	var list metav1.APIResourceList
	if err == nil && found {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return unread[bool](err, doctor.Right{Verb: "get", Resource: "the API version " + version})
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return doctor.Answer[bool]{Value: true}
		}
	}
	return doctor.Answer[bool]{}
}

// log reads what the container logged in the latest time. It returns nil if the pod has ended or the container has not started.
func (s *session) log(ctx context.Context, namespace, pod, container string, latest time.Duration) doctor.Answer[*string] {
	body, err := s.raw.rest.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "log").Param("container", container).
		Param("sinceSeconds", strconv.Itoa(int(latest.Seconds()))).Param("limitBytes", strconv.Itoa(logLimit)).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return doctor.Answer[*string]{}
	case err != nil:
		return unread[*string](err, doctor.Right{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace})
	}
	lines := string(body)
	return doctor.Answer[*string]{Value: &lines}
}
