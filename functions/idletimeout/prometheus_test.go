package idletimeout

import (
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const vector = `{"status":"success","data":{"resultType":"vector","result":[%s]}}`

func TestAskPrometheus(t *testing.T) {
	answers := map[string]struct {
		code int
		body string
	}{
		"a value above zero":        {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"3"]}`)},
		"zero":                      {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"0"]}`)},
		"below zero":                {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"-1"]}`)},
		"a little":                  {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"1e-9"]}`)},
		"without end":               {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"+Inf"]}`)},
		"one of several":            {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"0"]},{"metric":{},"value":[1,"1"]}`)},
		"none of several":           {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"0"]},{"metric":{},"value":[1,"0"]}`)},
		"no number":                 {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"NaN"]}`)},
		"no number beside one":      {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"NaN"]}`)},
		"a word":                    {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"many"]}`)},
		"a number that is no text":  {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,1]}`)},
		"no value":                  {200, fmt.Sprintf(vector, `{"metric":{},"histogram":[1,{}]}`)},
		"nothing":                   {200, fmt.Sprintf(vector, ``)},
		"null":                      {200, `{"status":"success","data":{"resultType":"vector","result":null}}`},
		"a vector that is none":     {200, `{"status":"success","data":{"resultType":"vector","result":{}}}`},
		"a scalar":                  {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`},
		"a scalar that is zero":     {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`},
		"a scalar that is none":     {200, `{"status":"success","data":{"resultType":"scalar","result":{}}}`},
		"a scalar without a value":  {200, `{"status":"success","data":{"resultType":"scalar","result":[]}}`},
		"a range":                   {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`},
		"no data":                   {200, `{"status":"success"}`},
		"a query that is wrong":     {400, `{"status":"error","errorType":"bad_data","error":"parse error: unclosed brace"}`},
		"an error, in spite of 200": {200, `{"status":"error","error":"no"}`},
		"it is overloaded":          {503, `no upstream`},
		"a success of another code": {202, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"3"]}`)},
		"a page":                    {200, `<html>sign in</html>`},
		"a redirect":                {302, ``},
		"nothing at all":            {200, ``},
		"the answer is too long": {
			200, fmt.Sprintf(vector, strings.Repeat(`{"metric":{},"value":[1,"0"]},`, 100_000)+`{"metric":{},"value":[1,"1"]}`)},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		row := answers[name]
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/prom/api/v1/query" || r.Method != http.MethodPost || r.FormValue("query") != `sum(x{a="b"}) > 0 & 1` {
					t.Errorf("asked for %s %s: %q", r.Method, r.URL, r.FormValue("query"))
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(row.code)
				_, _ = io.WriteString(w, row.body)
			}))
			t.Cleanup(server.Close)
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL+"/prom/", []string{"*"}
			file.Entry(t, name, ask(t, newCluster(t), settings, `prometheus:sum(x{a="b"}) > 0 & 1`))
		})
	}
}

func TestUnreachablePrometheus(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("query") == "body" {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}))
	t.Cleanup(slow.Close)
	servers := map[string]struct{ url, query string }{
		"no Prometheus is configured":    {"", "x"},
		"nothing listens at the URL":     {"http://127.0.0.1:1", "x"},
		"an invalid URL":                 {"http://a b", "x"},
		"an unknown scheme":              {"prometheus:9090", "x"},
		"the probe fails":                {slow.URL, "x"},
		"the answer stops in the middle": {slow.URL, "body"},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		row := servers[name]
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.ProbeTimeout, settings.PromNamespaces = row.url, 300*time.Millisecond, []string{build.Namespace}
			begin := time.Now()
			file.Entry(t, name, ask(t, newCluster(t), settings, "prometheus:"+row.query))
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// secret stands for another tenant's data in an answer of Prometheus.
const secret = "payroll"

// TestPrometheusAnswerIsNotQuoted: the author of the query must not read data of other tenants in an error.
func TestPrometheusAnswerIsNotQuoted(t *testing.T) {
	for name, row := range map[string]struct {
		code int
		body string
	}{
		"an error":  {422, `{"status":"error","error":"found duplicate series [{namespace=\"payroll\"}]"}`},
		"a warning": {200, `{"status":"success","warnings":["payroll"],"data":{"resultType":"scalar","result":[1,"1"]}}`},
		"a kind":    {200, `{"status":"success","data":{"resultType":"payroll","result":[]}}`},
		"a vector":  {200, `{"status":"success","data":{"resultType":"vector","result":"payroll"}}`},
		"a value":   {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"payroll"]}}`},
		"a page":    {200, `payroll`},
		"a thousand rows": {200, `{"status":"success","data":{"resultType":"vector","result":[` + strings.Repeat(`{"value":[1,"1"]},`, 100) +
			`{"value":[1,"payroll"]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			active, err := anyAboveZero(row.code, []byte(row.body))
			if err == nil || active || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, %v", active, err)
			}
		})
	}
}

// TestPrometheusKeepsTenantsApart: the administrator lists a namespace, or the URL contains the namespace.
func TestPrometheusKeepsTenantsApart(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = r
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	t.Cleanup(server.Close)
	for name, row := range map[string]struct {
		path       string
		namespaces []string
		want       string
		asked      string
	}{
		"no namespace is allowed":             {"", nil, "sets of namespace shop may not query Prometheus", ""},
		"only another namespace is allowed":   {"", []string{"payroll"}, "sets of namespace shop may not query Prometheus", ""},
		"the namespace is allowed":            {"", []string{"payroll", "shop"}, "in use", "/api/v1/query"},
		"every namespace is allowed":          {"", []string{"*"}, "in use", "/api/v1/query"},
		"the namespace is a part of the path": {"/tenants/{namespace}/", nil, "in use", "/tenants/shop/api/v1/query"},
		"the namespace is a query parameter":  {"/?namespace={namespace}&dedup=true", nil, "in use", "/api/v1/query?namespace=shop&dedup=true"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL+row.path, row.namespaces
			got = nil
			expectResult(t, ask(t, newCluster(t), settings, "prometheus:up"), row.want)
			switch {
			case row.asked == "" && got != nil:
				t.Errorf("asked for %s", got.URL)
			case row.asked != "" && (got == nil || got.URL.String() != row.asked):
				t.Errorf("asked for %+v, want %s", got, row.asked)
			case got != nil && (got.PostForm.Get("limit") != "101" || !strings.HasSuffix(got.PostForm.Get("timeout"), "ms")):
				t.Errorf("the query has no bounds: %v", got.PostForm)
			}
		})
	}
}

// TestPrometheusOverTLS uses a token and a certificate authority from files.
func TestPrometheusOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	token := write("token", []byte("t0ken\n"))
	authority := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	nonsense := write("nonsense.pem", []byte("x"))
	for name, row := range map[string]struct{ token, ca, want string }{
		"the right token and authority":         {token, authority, "in use"},
		"no token":                              {"", authority, "prometheus answers 401"},
		"the authority is not configured":       {token, "", "prometheus did not answer"},
		"the authority file has no certificate": {token, nonsense, "prometheus cannot be queried"},
		"the token file does not exist":         {filepath.Join(folder, "none"), authority, "prometheus cannot be queried"},
		"the authority file does not exist":     {token, filepath.Join(folder, "none"), "prometheus cannot be queried"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL, []string{"*"}
			settings.PromTokenFile, settings.PromCAFile = row.token, row.ca
			expectResult(t, ask(t, newCluster(t), settings, "prometheus:up"), row.want)
		})
	}
}
