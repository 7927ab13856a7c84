package cleanup

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const (
	inJSON = `{"metadata":{"labels":{"app":"cleaner"}},"spec":{"containers":[{"name":"drain","image":"registry.example/drain:1"}]}}`
	inYAML = "spec:\n  containers:\n  - name: drain\n    image: registry.example/drain:1\n"
)

func template(text string) build.Option { return build.Annotation(api.CleanupTemplateAnnotation, text) }

func olderKey(text string) build.Option {
	return build.Annotation(api.OlderCleanupTemplateAnnotation, text)
}

func annotated(key, value string) build.Option { return build.Annotation(key, value) }

// web returns a set with a claim template.
func web(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed")}, options...)...)
}

func retention(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: whenScaled, WhenDeleted: whenDeleted,
		}
	})
}

// judged returns the problem with the set's template, or its image.
func judged(set *appsv1.StatefulSet) string {
	template, problem := Template(set)
	if problem != nil {
		if template != nil {
			return "a template and a problem"
		}
		return string(problem.Reason) + ": " + problem.Message
	}
	return template.Spec.Containers[0].Image
}

// TestTemplateIsCheckedBeforeUse: a template that the set would treat as a member is refused.
// Invariants: I9.
func TestTemplateIsCheckedBeforeUse(t *testing.T) {
	const (
		image  = "registry.example/drain:1"
		retain = statefulset.Retain
		gone   = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	)
	with := func(more string) build.Option {
		return template(`{"spec":{"containers":[{"name":"drain","image":"` + image + `"}]` + more + `}}`)
	}
	labelled := func(labels string) build.Option {
		return template(`{"metadata":{"labels":` + labels + `},"spec":{"containers":[{"name":"drain","image":"` + image + `"}]}}`)
	}
	onDelete := annotated(api.CleanupOnDeleteAnnotation, "true")
	expression := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "role", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"tool"}},
		}}
	})
	cases := map[string][]build.Option{
		"JSON":                                   {template(inJSON)},
		"YAML":                                   {template(inYAML)},
		"the older key":                          {olderKey(inJSON)},
		"both keys: the newer key applies":       {olderKey("{"), template(inYAML)},
		"both keys: the newer value is invalid":  {olderKey(inJSON), template(`{"spec":{}}`)},
		"both keys: the newer value is empty":    {olderKey(inJSON), template("")},
		"a string":                               {template("words")},
		"invalid YAML, under the older key":      {olderKey("{")},
		"an unknown field":                       {with(`,"contaners":[]`)},
		"a repeated field":                       {template("spec: {}\nspec: {}\n")},
		"a quantity that takes minutes to parse": {template("spec: {containers: [{resources: {limits: {cpu: '1e-99999999'}}}]}")},
		"an anchor":                              {template("metadata: {labels: {a: &a b, c: *a}}")},
		"null":                                   {template("null")},
		"a blank success message": {template(
			`{"metadata":{"annotations":{"drydock.dev/success-message":" "}},"spec":{"containers":[{"name":"x"}]}}`)},
		"restartPolicy OnFailure":                   {with(`,"restartPolicy":"OnFailure"`)},
		"restartPolicy Never":                       {with(`,"restartPolicy":"Never"`)},
		"restartPolicy Always":                      {with(`,"restartPolicy":"Always"`)},
		"no containers":                             {template(`{"spec":{"initContainers":[{"name":"a"}]}}`)},
		"labels that do not match":                  {labelled(`{"app":"web-cleanup"}`)},
		"labels that match the selector":            {labelled(`{"app":"web","more":"1"}`)},
		"no labels, and an expression that matches": {template(inYAML), expression},
		"labels that the expression excludes":       {labelled(`{"role":"tool"}`), expression},
		"a volume with another name":                {with(`,"volumes":[{"name":"tmp","emptyDir":{}}]`)},
		"a volume named like a claim template": {
			with(`,"volumes":[{"name":"tmp","emptyDir":{}},{"name":"data","emptyDir":{}}]`),
		},
		"a volume named like the second claim template": {
			build.Template("logs", "1Mi", "fixed"), with(`,"volumes":[{"name":"logs","emptyDir":{}}]`),
		},
		"a scale-down keeps the claims":                         {template(inYAML), retention(retain, "")},
		"a scale-down deletes the claims":                       {olderKey(inYAML), retention(gone, retain)},
		"a deletion deletes the claims":                         {template(inYAML), retention(retain, gone)},
		"a deletion deletes the claims, with cleanup-on-delete": {template(inYAML), retention("", gone), onDelete},
		"an operator makes a set with cleanup-on-delete":        {template(inYAML), onDelete, build.ControlledBy("Database", "main")},
		"an operator makes a set without cleanup-on-delete":     {template(inYAML), build.ControlledBy("Database", "main")},
		"cleanup-on-delete":                                     {template(inYAML), retention("", retain), onDelete},
		"cleanup-on-delete with another value": {
			template(inYAML), retention("", gone), annotated(api.CleanupOnDeleteAnnotation, "yes"),
		},
		"on scale-up: wait":             {template(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "wait")},
		"on scale-up: cancel":           {template(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "cancel")},
		"on scale-up: an unknown value": {template(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "Wait")},
		"on scale-up: a long value": {
			template(inYAML), annotated(api.CleanupOnScaleUpAnnotation, strings.Repeat("é", 100)),
		},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { file.Entry(t, name, judged(web(cases[name]...))) })
	}
}

// TestMessagesAreShort: they quote users' text and are stored in an annotation and a Kubernetes Event.
func TestMessagesAreShort(t *testing.T) {
	for name, text := range map[string]string{
		"a long string":       strings.Repeat("x", 200<<10),
		"many unknown fields": "{" + `"` + strings.Repeat("f", 9000) + `":1` + "}",
		"an unknown value":    `{"spec":{"containers":"` + strings.Repeat("é", 50<<10) + `"}}`,
		"deep nesting":        strings.Repeat("[", 9000),
		"an anchor that grows": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
			"g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
		"not UTF-8":         "{\"spec\":\"\xff\xfe\"}",
		"several lines":     "spec:\n  a: 1\n  b: 2\n  a: 3\n  b: 4\n",
		"a zero byte":       "\x00",
		"an empty document": "---",
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := Template(web(template(text)))
			if problem == nil || len(problem.Message) > 800 || strings.Contains(problem.Message, "\n") || !utf8.ValidString(problem.Message) {
				t.Errorf("%+v", problem)
			}
		})
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{inJSON, inYAML, "", "{", "null", "[]", "spec:", `{"spec":{"containers":[null]}}`,
		`{"spec":{"volumes":[{"name":"data"}],"containers":[{}]}}`, "spec: &a\n  containers: [*a]", "\x00", "\xff", "!!binary AA=="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set := web(template(text))
		template, problem := Template(set)
		switch {
		case (template == nil) == (problem == nil):
			t.Fatalf("template %v, problem %v", template, problem)
		case problem != nil && (problem.Reason == "" || len(problem.Message) > 1000 || !utf8.ValidString(problem.Message)):
			t.Errorf("%+v", problem)
		case template != nil && (len(template.Spec.Containers) == 0 || statefulset.Selects(set, template.Labels)):
			t.Errorf("%+v", template)
		}
		if len(Digest(set)) != 12 && text != "" {
			t.Errorf("digest %q", Digest(set))
		}
	})
}

func TestCleanupIsRequestedByATemplate(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want bool
	}{
		"a template":                {web(template(inYAML)), true},
		"the older key":             {web(olderKey(inYAML)), true},
		"no template":               {web(), false},
		"an empty template":         {web(template("")), false},
		"a template, but no claims": {build.Set("web", template(inYAML)), false},
	} {
		if got := statefulset.CleanupAsked(row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
		if asked := Digest(row.set) != ""; asked != row.want {
			t.Errorf("%s: digest %q", name, Digest(row.set))
		}
	}
}

// TestDigestCoversWhatDecidesACleanup, and nothing else.
func TestDigestCoversWhatDecidesACleanup(t *testing.T) {
	before := Digest(web(template(inYAML)))
	for name, row := range map[string]struct {
		option build.Option
		same   bool
	}{
		"another annotation":                 {build.Annotation("team", "data"), true},
		"other replicas":                     {build.Replicas(7), true},
		"another UID":                        {build.UID("uid-2"), true},
		"an explicit Retain":                 {retention(statefulset.Retain, statefulset.Retain), true},
		"another template":                   {template(inYAML + "\n"), false},
		"the older key in addition":          {olderKey("x"), true},
		"a scale-down deletes":               {retention("Delete", ""), false},
		"a deletion deletes":                 {retention("", "Delete"), false},
		"cancel on scale-up":                 {annotated(api.CleanupOnScaleUpAnnotation, "cancel"), false},
		"cleaned up when deleted":            {annotated(api.CleanupOnDeleteAnnotation, "true"), false},
		"a value that imitates another part": {annotated(api.CleanupOnScaleUpAnnotation, "4:true"), false},
	} {
		if same := Digest(web(template(inYAML), row.option)) == before; same != row.same {
			t.Errorf("%s: same %t", name, same)
		}
	}
	// Frozen: a new version of Drydock must not treat every template as changed.
	if before != "610db8950ae8" {
		t.Errorf("the digest has changed: %s", before)
	}
	a := web(template(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "x"))
	b := web(template(inYAML), annotated(api.CleanupOnDeleteAnnotation, "x"))
	if Digest(a) == Digest(b) {
		t.Error("the same value under two keys has the same digest")
	}
}

func TestCancelAndFinalizerFollowTheAnnotations(t *testing.T) {
	cancel := annotated(api.CleanupOnScaleUpAnnotation, "cancel")
	if Cancels(web()) || !Cancels(web(cancel)) || Cancels(web(annotated(api.CleanupOnScaleUpAnnotation, "wait"))) {
		t.Error("only the value cancel cancels")
	}
	if HasFinalizer(web()) || !HasFinalizer(web(build.Finalizers("a", api.CleanupFinalizer, "b"))) ||
		HasFinalizer(web(build.Finalizers("a"))) {
		t.Error("the finalizer is not found in the list")
	}
	onDelete := annotated(api.CleanupOnDeleteAnnotation, "true")
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"requested":                       {[]build.Option{onDelete}, true},
		"requested without a template":    {[]build.Option{onDelete, template("")}, true},
		"not requested":                   {nil, false},
		"an operator makes the set":       {[]build.Option{onDelete, build.ControlledBy("Database", "main")}, false},
		"another value":                   {[]build.Option{annotated(api.CleanupOnDeleteAnnotation, "True")}, false},
		"not opted in":                    {[]build.Option{onDelete, build.Label(api.ManagedLabel, "")}, false},
		"a deletion deletes the claims":   {[]build.Option{onDelete, retention("", "Delete")}, false},
		"a scale-down deletes the claims": {[]build.Option{onDelete, retention("Delete", "")}, true},
	} {
		if got := NeedsFinalizer(web(row.options...)); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
