//go:build cluster

package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/test/kit"
)

// privateOwner defines a kind that only functions with the settings of this world know, and returns the file with the rights to pause it in
// the namespace.
func privateOwner(w *kit.World) (row owners.Row, rights string) {
	t := w.T.(*testing.T)
	w.Settings.Owners = "[{operator: " + w.Namespace + ", group: " + w.Namespace +
		".example.com, kinds: [{name: Store, plural: stores}], pause: [{field: spec.paused, value: true}]}]"
	rows := filepath.Join(t.TempDir(), "rows.yaml")
	must(t, os.WriteFile(rows, []byte(w.Settings.Owners), 0o600))
	registry, err := owners.LoadRegistry(w.Settings.Owners)
	must(t, err)
	row, _ = registry.Find(w.Namespace+".example.com", "Store")
	w.DefineKind(row, "Store")
	t.Cleanup(func() { w.Kubectl("delete", "--ignore-not-found", "crd", "stores."+row.Group) })
	roles, err := command(t, w, "rbac", "--owners", w.Namespace, "--file", rows, "--in", w.Namespace)
	must(t, err)
	rights = filepath.Join(t.TempDir(), "roles.yaml")
	must(t, os.WriteFile(rights, []byte(roles), 0o600))
	t.Cleanup(func() { w.Kubectl("delete", "--ignore-not-found", "-f", rights) })
	return row, rights
}

// TestRightsOverOwnersInOneNamespace: the output of kubectl drydock rbac --in suffices to pause an owner there. Without
// the rights the owner stays paused and the set reports it. With them it is resumed.
func TestRightsOverOwnersInOneNamespace(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	row, manifest := privateOwner(w)
	w.Kubectl("apply", "-f", manifest)
	idleSet(w, "web", 2, nil)
	w.SetController("web", w.CreateCustom(row, "Store", "main", map[string]any{}, nil))
	before := content(w.Custom(row, "Store", "main"))
	w.Expect(http.StatusForbidden, api.PauseOwner, "its rights are removed while the set sleeps")
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.Kubectl("delete", "rolebinding", "drydock-owners-"+w.Namespace)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.Eventually("the set reports that its owner stays paused", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded || !strings.Contains(sleep.OwnerProblem, "kubectl drydock rbac --owners") {
			return string(sleep.Phase) + ": " + sleep.OwnerProblem
		}
		return ""
	})
	if told := strings.Join(w.Events("web"), ", "); !strings.Contains(told, "Warning "+string(api.OwnerStays)) {
		t.Errorf("events %s", told)
	}
	w.Kubectl("apply", "-f", manifest)
	expectResumed(t, w, drive, row, "Store", before)
	if sleep := w.Sleep("web"); sleep.OwnerProblem != "" {
		t.Errorf("it still reports: %s", sleep.OwnerProblem)
	}
}

// TestFunctionsHaveTheirOwnPriority: the API server names the FlowSchema of a request in its answer.
func TestFunctionsHaveTheirOwnPriority(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	schema, err := w.Kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), "drydock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the API server uses the FlowSchema", func() string { // it watches FlowSchemas
		for _, function := range []api.Function{api.Backup, api.Restore, api.Sift} {
			if got := flowSchemaOf(t, kube.Impersonate(w.Config, function)); got != string(schema.UID) {
				return string(function) + " has FlowSchema " + got
			}
		}
		return ""
	})
	tenant := rest.CopyConfig(w.Config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":drydock"}
	if got := flowSchemaOf(t, tenant); got == "" || got == string(schema.UID) {
		t.Errorf("a tenant's account has FlowSchema %q, Drydock has %s", got, schema.UID)
	}
	w.Eventually("the priority level exists", func() string { // the API server writes the condition later
		schema, err := w.Kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), "drydock", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, condition := range schema.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling && condition.Status == flowcontrolv1.ConditionFalse {
				return ""
			}
		}
		return fmt.Sprintf("the conditions are %+v", schema.Status.Conditions)
	})
}

// flowSchemaOf returns the UID of the FlowSchema of a request.
func flowSchemaOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	config = rest.CopyConfig(config)
	answers := &flowHeader{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { answers.next = next; return answers })
	_, _ = kubernetes.NewForConfigOrDie(config).AppsV1().StatefulSets("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	return answers.schema
}

// flowHeader is a transport that notes the FlowSchema of the latest request.
type flowHeader struct {
	next   http.RoundTripper
	schema string
}

func (f *flowHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	if err == nil {
		f.schema = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	}
	return response, err
}

// handled counts the events of a function.
type handled struct{ count int }

func (h *handled) Handle(context.Context, event.Event) (*event.Event, error) {
	h.count++
	return nil, nil
}

// TestOrderNeedsSenderWithRightToPatchSet asks the real API server about tokens of real accounts, with the rights of
// idle-timeout's account.
func TestOrderNeedsSenderWithRightToPatchSet(t *testing.T) {
	w := kit.NewWorld(t)
	w.Drive(nil) // installs the rights
	editor, viewer := token(w, "editor", "edit"), token(w, "viewer", "view")
	config := rest.CopyConfig(kit.APIConfig(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:drydock:idle-timeout",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	orders := serve.Orders{Access: kube.NewClient(config)}

	inner := &handled{}
	function := serve.NewEventHandler("idle-timeout", inner, time.Minute, orders, telemetry.Off(), slog.New(slog.DiscardHandler))
	broker := orders.Guard(serve.NewEventHandler("broker", inner, time.Minute, serve.Orders{}, telemetry.Off(),
		slog.New(slog.DiscardHandler)))
	elsewhere := events.Ref{Namespace: "kube-system", Name: "web"}
	web := events.Ref{Namespace: w.Namespace, Name: "web"}
	group, err := events.NewForGroup(events.Wake, w.Namespace, "shop", "1")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		event event.Event
		token string
		want  int
	}{
		"a hint needs no token":                  {events.NewFromUser(events.ResizeRequested, web, "1"), "", http.StatusAccepted},
		"no token":                               {events.NewFromUser(events.Sleep, web, "1"), "", http.StatusForbidden},
		"not a token":                            {events.NewFromUser(events.Sleep, web, "1"), "secret-text", http.StatusForbidden},
		"with the right to read":                 {events.NewFromUser(events.Retry, web, "1"), viewer, http.StatusForbidden},
		"who may patch, in another namespace":    {events.NewFromUser(events.Sleep, elsewhere, "1"), editor, http.StatusForbidden},
		"who may patch":                          {events.NewFromUser(events.Sleep, web, "1"), editor, http.StatusAccepted},
		"about a group, who may only read":       {group, viewer, http.StatusForbidden},
		"about a group, who may patch every set": {group, editor, http.StatusAccepted},
	} {
		for place, handler := range map[string]http.Handler{"function": function, "broker": broker} {
			for _, structured := range []bool{false, true} {
				inner.count = 0
				answer := post(t, handler, row.event, row.token, structured)
				taken := row.want == http.StatusAccepted
				if ok := answer.Code < 300; ok != taken || !taken && answer.Code != row.want || taken != (inner.count == 1) {
					t.Errorf("%s, %s, structured %v: code %d, %d handled: %s", name, place, structured, answer.Code, inner.count,
						answer.Body)
				}
				if row.token != "" && strings.Contains(answer.Body.String(), row.token) {
					t.Errorf("%s, %s: the answer quotes the token", name, place)
				}
			}
		}
	}
}

// token returns a token of a new account with the role in the world's namespace.
func token(w *kit.World, name, role string) string {
	w.T.Helper()
	ctx := context.Background()
	_, err := w.Kube.CoreV1().ServiceAccounts(w.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	_, err = w.Kube.RbacV1().RoleBindings(w.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.Namespace, Name: name}}}, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	made, err := w.Kube.CoreV1().ServiceAccounts(w.Namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	return made.Status.Token
}

// post sends the event in binary or structured mode.
func post(t *testing.T, handler http.Handler, e event.Event, token string, structured bool) *httptest.ResponseRecorder {
	t.Helper()
	ctx := t.Context()
	if structured {
		ctx = binding.WithForceStructured(ctx)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), r); err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", fmt.Sprintf("Bearer %s", token))
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}
