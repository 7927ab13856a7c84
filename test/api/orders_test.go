//go:build cluster

package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/test/kit"
)

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
