package growvolumes

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

const statsToken = "token-of-volume-stats"

// apiServer answers reads, and creates tokens only for the account volume-stats.
type apiServer struct{ build.Lists }

func (s apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.Lists.ServeHTTP(w, r)
		return
	}
	if r.URL.Path != "/api/v1/namespaces/drydock/serviceaccounts/volume-stats/token" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: statsToken}}
	answer.APIVersion, answer.Kind = "authentication.k8s.io/v1", "TokenRequest"
	_ = json.NewEncoder(w).Encode(answer)
}

// cluster returns a function for a cluster with one node, whose kubelet is the handler, and a set with two members on it.
func cluster(t *testing.T, kubelet http.HandlerFunc, settings api.Settings) (*Function, Input, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(kubelet)
	t.Cleanup(server.Close)
	in := web(rule)
	lists := build.EmptyLists()
	host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	node := build.Node()
	node.Name = "node-1"
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-1"},
		{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	lists["nodes"] = append(lists["nodes"], node)
	for ordinal := range 2 {
		pod := build.PodOf("web", ordinal, "data")
		pod.Spec.NodeName = "node-1"
		lists["pods"] = append(lists["pods"], pod)
	}
	back := httptest.NewServer(apiServer{lists})
	t.Cleanup(back.Close)
	settings.GrowTimeout = 5 * time.Second
	return New(kube.NewClient(&rest.Config{Host: back.URL}), settings, slog.New(slog.DiscardHandler)), in, server
}

// authority returns the path of a file with the server's certificate.
func authority(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func summaryOf(claim string) string {
	return fmt.Sprintf(`{"pods":[{"volume":[{"time":%q,"availableBytes":10,"capacityBytes":100,"pvcRef":{"name":%q,"namespace":%q}}]}]}`,
		build.Now.Format(time.RFC3339), claim, build.Namespace)
}

// TestKubeletReceivesOnlyStatsToken: the function reads the statistics over TLS. The token belongs to an account with no other permission.
func TestKubeletReceivesOnlyStatsToken(t *testing.T) {
	var got []*http.Request
	f, in, server := cluster(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		_, _ = io.WriteString(w, summaryOf("data-web-1"))
	}, api.Settings{})
	f.settings.GrowKubeletCA = authority(t, server)
	usage := f.measure(t.Context(), in)
	if u := usage["data-web-1"]; len(usage) != 1 || u.Free != 10 || u.Capacity != 100 || !u.MeasuredAt.Equal(build.Now) {
		t.Errorf("usage %+v", usage)
	}
	if len(got) != 1 || got[0].URL.Path != "/stats/summary" || got[0].Header.Get("Authorization") != "Bearer "+statsToken {
		t.Errorf("requests %+v", got)
	}
}

// TestKubeletAddress: the token is sent to the first internal address of the node that a kubelet can have.
func TestKubeletAddress(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.7":               "10.0.0.7:10250",
		"fd00::7":                "[fd00::7]:10250",
		"node-1.example":         "10.0.0.9:10250",
		"169.254.169.254":        "10.0.0.9:10250",
		"::ffff:169.254.169.254": "10.0.0.9:10250",
		"fe80::1":                "10.0.0.9:10250",
		"0.0.0.0":                "10.0.0.9:10250",
		"224.0.0.1":              "10.0.0.9:10250",
	} {
		node := &corev1.Node{}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
			{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}
		if got, err := kubeletAddress(node); got != want || err != nil {
			t.Errorf("with %s the address is %q, %v, want %q", address, got, err, want)
		}
	}
	if got, err := kubeletAddress(&corev1.Node{}); err == nil {
		t.Errorf("the address of a node without addresses is %q", got)
	}
}

// TestKubeletWithUnknownAuthorityGetsNoToken: only the setting for insecure kubelets allows such a certificate.
func TestKubeletWithUnknownAuthorityGetsNoToken(t *testing.T) {
	asked := 0
	f, in, _ := cluster(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, summaryOf("data-web-1"))
	}, api.Settings{})
	if usage := f.measure(t.Context(), in); len(usage) != 0 || asked != 0 {
		t.Errorf("usage %v, asked %d times", usage, asked)
	}
	f.settings.GrowKubeletInsecure = true
	if usage := f.measure(t.Context(), in); len(usage) != 1 || asked != 1 {
		t.Errorf("insecure kubelets are allowed: usage %v, asked %d times", usage, asked)
	}
}

// TestHostileKubeletLeavesUsageUnknown: errors, redirects, foreign names and endless answers give no usage.
func TestHostileKubeletLeavesUsageUnknown(t *testing.T) {
	for says, answer := range map[string]http.HandlerFunc{
		"an error":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"an invalid answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "nonsense") },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/", http.StatusFound)
		},
		"claims of another namespace": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.ReplaceAll(summaryOf("x"), build.Namespace, "other"))
		},
		"an endless answer": func(w http.ResponseWriter, _ *http.Request) {
			piece := []byte(strings.Repeat(" ", 1<<20))
			for range 40 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			f, in, _ := cluster(t, answer, api.Settings{GrowKubeletInsecure: true})
			if usage := f.measure(t.Context(), in); len(usage) != 0 {
				t.Errorf("%v", usage)
			}
		})
	}
}

// prometheusWith returns a function whose Prometheus gives the answer, and the parameters that Prometheus receives.
func prometheusWith(t *testing.T, code int, body string) (map[string]string, Input, *Function) {
	t.Helper()
	seen := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		seen["query"], seen["path"] = r.Form.Get("query"), r.URL.Path
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	f := New(nil, api.Settings{Prometheus: server.URL + "/{namespace}", GrowUsage: api.GrowByPrometheus, GrowTimeout: 5 * time.Second},
		slog.New(slog.DiscardHandler))
	return seen, web(rule), f
}

func vector(series ...string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
}

func series(name, value string, labels ...string) string {
	all := map[string]string{"__name__": "kubelet_volume_stats_" + name, "namespace": build.Namespace,
		"persistentvolumeclaim": "data-web-0", "node": "a"}
	for i := 0; i+1 < len(labels); i += 2 {
		all[labels[i]] = labels[i+1]
	}
	text, _ := json.Marshal(all)
	return fmt.Sprintf(`{"metric":%s,"value":[%d,%q]}`, text, build.Now.Add(maxSampleAge).Unix(), value)
}

// TestOneQueryForClaimsOfSet: the function reads the usage of a set with one query, which selects only its claims.
func TestOneQueryForClaimsOfSet(t *testing.T) {
	seen, in, f := prometheusWith(t, 200, vector(series("capacity_bytes", "100"), series("available_bytes", "7"),
		series("inodes", "50"), series("inodes_free", "5"),
		series("capacity_bytes", "100", "namespace", "other"), series("available_bytes", "1", "namespace", "other")))
	usage := f.measure(t.Context(), in)
	if u := usage["data-web-0"]; len(usage) != 1 || u.Free != 7 || u.Capacity != 100 || u.Inodes != 50 || u.InodesFree != 5 ||
		!u.MeasuredAt.Equal(build.Now) {
		t.Errorf("usage %+v", usage)
	}
	want := `{__name__=~"kubelet_volume_stats_(capacity_bytes|available_bytes|inodes|inodes_free)",` +
		`namespace="shop",persistentvolumeclaim=~"data-web-0|data-web-1"}`
	if seen["query"] != want || seen["path"] != "/shop/api/v1/query" {
		t.Errorf("%v, want %s", seen, want)
	}
}

// TestHostilePrometheusLeavesUsageUnknown: errors, warnings and impossible values give no usable usage.
func TestHostilePrometheusLeavesUsageUnknown(t *testing.T) {
	capacity, free := series("capacity_bytes", "100"), series("available_bytes", "7")
	for says, row := range map[string]struct {
		code int
		body string
	}{
		"an error":          {500, vector(capacity, free)},
		"an invalid answer": {200, "nonsense"},
		"a warning": {200,
			`{"status":"success","warnings":["partial"],"data":{"resultType":"vector","result":[` + capacity + "," + free + `]}}`},
		"a value that is not a number": {200, vector(capacity, series("available_bytes", "NaN"))},
		"a value below zero":           {200, vector(capacity, series("available_bytes", "-7"))},
		"an infinite value":            {200, vector(series("capacity_bytes", "+Inf"), free)},
		"no capacity":                  {200, vector(free)},
		"no free space":                {200, vector(capacity)},
		"a duplicate figure":           {200, vector(capacity, free, free)},
		"two contradictory nodes": {200, vector(capacity, free, series("capacity_bytes", "200", "node", "b"),
			series("available_bytes", "7", "node", "b"))},
		"an answer that is too large": {200, strings.Repeat(" ", 9<<20) + vector(capacity, free)},
	} {
		t.Run(says, func(t *testing.T) {
			_, in, f := prometheusWith(t, row.code, row.body)
			for claim, u := range f.measure(t.Context(), in) {
				if why := u.Problem(*build.Claim("x", "100").Spec.Resources.Requests.Storage(), in.Now); why == "" {
					t.Errorf("%s: %+v", claim, u)
				}
			}
		})
	}
}

// TestLargerFreeSpaceOfTwoNodesCounts: a volume does not grow if one of two reports shows enough free space.
func TestLargerFreeSpaceOfTwoNodesCounts(t *testing.T) {
	_, in, f := prometheusWith(t, 200, vector(series("capacity_bytes", "100"), series("available_bytes", "7"),
		series("capacity_bytes", "100", "node", "b"), series("available_bytes", "9", "node", "b")))
	if u := f.measure(t.Context(), in)["data-web-0"]; u.Free != 9 {
		t.Errorf("%+v", u)
	}
}

// TestUnknownUsageSourceIsLogged: with an invalid DRYDOCK_GROW_USAGE no kubelet is asked, and the log names the setting.
func TestUnknownUsageSourceIsLogged(t *testing.T) {
	var out bytes.Buffer
	f := New(nil, api.Settings{GrowUsage: "prom", GrowTimeout: time.Second}, slog.New(slog.NewTextHandler(&out, nil)))
	in := Input{Observed: &world.Observed{Set: build.Set("web")}}
	if usage := f.measure(t.Context(), in); len(usage) != 0 || !strings.Contains(out.String(), "DRYDOCK_GROW_USAGE=prom") {
		t.Errorf("usage %v, log %s", usage, out.String())
	}
}

// TestMissingSeriesOfFreeInodesGrowsNothing: half of the space is free, and Prometheus has no series inodes_free.
func TestMissingSeriesOfFreeInodesGrowsNothing(t *testing.T) {
	mib := func(n int) string { return fmt.Sprint(n << 20) }
	_, in, f := prometheusWith(t, 200, vector(series("capacity_bytes", mib(100)), series("available_bytes", mib(50)),
		series("inodes", "65536")))
	in.Usage = f.measure(t.Context(), in)
	if u := in.Usage["data-web-0"]; u.Capacity == 0 || u.Inodes != 0 {
		t.Errorf("%+v", u)
	}
	for _, a := range Decide(in).Actions {
		if a.Resource == plan.StatefulSets {
			t.Errorf("a half-empty volume grows: %s", a)
		}
	}
}

// TestClaimOfAnotherClusterIsNotTaken: one Prometheus has the series of two clusters, and both have a claim with this name.
func TestClaimOfAnotherClusterIsNotTaken(t *testing.T) {
	mib := func(n int) string { return fmt.Sprint(n << 20) }
	_, in, f := prometheusWith(t, 200, vector(
		series("capacity_bytes", mib(100), "cluster", "prod"), series("available_bytes", mib(1), "cluster", "prod"),
		series("capacity_bytes", mib(100), "cluster", "test", "node", "b"), series("available_bytes", mib(90), "cluster", "test", "node", "b")))
	in.Usage = f.measure(t.Context(), in)
	if u := in.Usage["data-web-0"]; u.Capacity != 0 {
		t.Errorf("%+v", u)
	}
}

// TestOneReportWithoutInodes: two nodes report the same volume, and one of them lacks a series about inodes.
func TestOneReportWithoutInodes(t *testing.T) {
	mib := func(n int) string { return fmt.Sprint(n << 20) }
	for name, extra := range map[string][]string{
		"no inodes_free": {series("inodes", "65536", "node", "b")}, "no inodes": {series("inodes_free", "6000", "node", "b")},
	} {
		body := append([]string{series("capacity_bytes", mib(100)), series("available_bytes", mib(5)), series("inodes", "65536"),
			series("inodes_free", "60000"), series("capacity_bytes", mib(100), "node", "b"),
			series("available_bytes", mib(5), "node", "b")}, extra...)
		_, in, f := prometheusWith(t, 200, vector(body...))
		in.Usage = f.measure(t.Context(), in)
		if u := in.Usage["data-web-0"]; u.Capacity == 0 || u.Inodes != 65536 || u.InodesFree != 60000 {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// TestConsentIsReadOnlyForUpdates: the function reads what the namespace allows only if Drydock is to change a custom resource.
func TestConsentIsReadOnlyForUpdates(t *testing.T) {
	for name, row := range map[string]struct {
		options []build.Option
		want    api.OwnerConsent
	}{
		"Drydock is to change the resource": {ofResource(api.OwnerUpdate), api.ConsentToUpdate},
		"Drydock ignores it":                {ofResource(api.OwnerIgnore), ""},
		"there is none":                     {[]build.Option{build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerUpdate))}, ""},
	} {
		in := webWith(rule, row.options, withFree("data-web-1", 1))
		namespace := &corev1.Namespace{}
		namespace.Name, namespace.Labels = build.Namespace, map[string]string{api.PauseOwnersLabel: string(api.ConsentToUpdate)}
		lists := build.EmptyLists()
		lists["statefulsets"], lists["namespaces"] = []metav1.Object{in.Set}, []metav1.Object{namespace}
		for _, c := range in.Claims {
			lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], c)
		}
		for claim, u := range in.Usage {
			u.MeasuredAt = time.Now()
			in.Usage[claim] = u
		}
		f, measured := New(kube.NewClient(lists.Serve()), api.Settings{}, slog.New(slog.DiscardHandler)), &measurement{in.Usage}
		observed, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"}, &measured)
		if err != nil || observed.Consent != row.want {
			t.Errorf("%s: the consent is %q (%v), want %q", name, observed.Consent, err, row.want)
		}
	}
}
