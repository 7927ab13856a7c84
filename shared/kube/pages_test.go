package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// deepScaler returns a Scaler of that many levels in JSON.
func deepScaler(levels int) string {
	const around = 6 // the Scaler, its spec, hooks, pre hook, Job and template
	return `{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","metadata":{"name":"deep","namespace":"evil"},` +
		`"spec":{"target":"web","hooks":{"pre":{"job":{"template":{"a":` + strings.Repeat(`[`, levels-around) +
		strings.Repeat("]", levels-around) + `}}}}}}`
}

// TestDeepObjectHidesNoOther: a list has two levels more than its items, and Go's decoder accepts 10,000. The API server lists custom
// resources with sorted keys, so the items come before the metadata of the list.
func TestDeepObjectHidesNoOther(t *testing.T) {
	scaler := func(name string) string {
		return `{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","metadata":{"annotations":{"a":"\\\"]}"},"name":"` + name +
			`"},"spec":{"target":"web"}}`
	}
	for name, row := range map[string]struct {
		deep string
		want []string
	}{
		"the deepest that is stored":    {deepScaler(10000), []string{"first", "deep", "last", "next"}},
		"one that no decoder can read":  {deepScaler(10001), nil},
		"one that ends in the middle":   {deepScaler(10000)[:9000], nil},
		"one with a wrong kind of name": {strings.Replace(deepScaler(10), `"deep"`, "7", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				items, next := scaler("first")+","+row.deep+","+scaler("last"), "more"
				if r.URL.Query().Get("continue") == next {
					items, next = scaler("next"), ""
				}
				_, _ = io.WriteString(w, `{"apiVersion":"drydock.dev/v1alpha1","items":[`+items+`],"kind":"ScalerList","metadata":{"continue":"`+
					next+`","resourceVersion":"7"}}`)
			}))
			t.Cleanup(server.Close)
			var names []string
			err := Pages(t.Context(), NewClient(&rest.Config{Host: server.URL}), plan.Scalers, "", "", &v1alpha1.ScalerList{},
				func(l *v1alpha1.ScalerList) {
					for i := range l.Items {
						names = append(names, l.Items[i].Name)
					}
				})
			if (err == nil) != (row.want != nil) || !slices.Equal(names, row.want) {
				t.Errorf("Scalers %q, want %q, error %v", names, row.want, err)
			}
		})
	}
}

// TestAnswerWithoutListIsNoEmptyList: a proxy before the API server may end an answer early. Without its journals or pods, a set would be
// judged wrongly.
func TestAnswerWithoutListIsNoEmptyList(t *testing.T) {
	for _, row := range []struct {
		body string
		ok   bool
	}{
		{"", false},
		{"\n", false},
		{" v1", false},
		{"<html></html>", false},
		{`{"kind":"Status","apiVersion":"v1"}`, false},
		{`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, row.body) }))
		t.Cleanup(server.Close)
		err := Pages(t.Context(), NewClient(&rest.Config{Host: server.URL}), plan.Pods, "", "", &corev1.PodList{}, func(*corev1.PodList) {})
		if (err == nil) != row.ok {
			t.Errorf("%q: error %v, want one: %t", row.body, err, !row.ok)
		}
	}
}

func TestListIsSplitIntoItsItems(t *testing.T) {
	for list, want := range map[string]string{
		`{"items":[{"a":[{}]},{"b":"]}"}],"metadata":{}}`: `{"items":[],"metadata":{}} {"a":[{}]} {"b":"]}"}`,
		`{"items":[{"a":"\\\""}]}`:                        `{"items":[]} {"a":"\\\""}`,
		`{"metadata":{"a":{}},"items":[ {} , {} ]}`:       `{"metadata":{"a":{}},"items":[  ]} {} {}`,
		`{"items":[]}`:   `{"items":[]}`,
		`{"items":null}`: `{"items":null}`,
		`{"items":[{}`:   `{"items":[ {}`,
		`]`:              `]`,
		`"`:              `"`,
		``:               ``,
	} {
		rest, items := splitList([]byte(list))
		got := string(rest)
		for _, item := range items {
			got += " " + string(item)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
}

// encoded returns the list as the API server sends it in protobuf.
func encoded(t testing.TB, claims *corev1.PersistentVolumeClaimList) []byte {
	t.Helper()
	for _, info := range codecs.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf {
			text, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), claims)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	t.Fatal("no protobuf")
	return nil
}

func claimsOfSize(count, size int) *corev1.PersistentVolumeClaimList {
	list := &corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{Continue: "more", ResourceVersion: "7"}}
	for i := range count {
		list.Items = append(list.Items, *build.With(build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi"),
			build.Annotation("notes", strings.Repeat("x", size))))
	}
	return list
}

// decodeAll decodes the text in chunks, and returns the claims, the continue token and the size of the largest chunk.
func decodeAll(text []byte) (claims []corev1.PersistentVolumeClaim, next string, largest int, err error) {
	_, err = chunks(bufio.NewReader(bytes.NewReader(text)), func(chunk []byte) error {
		largest = max(largest, len(chunk))
		part := &corev1.PersistentVolumeClaimList{}
		if err := decodeList(chunk, part); err != nil {
			return err
		}
		claims, next = append(claims, part.Items...), next+part.Continue
		return nil
	})
	return claims, next, largest, err
}

// TestChunksHaveEveryItemOnce: a page of any size is decoded in pieces, and nothing of it is lost.
func TestChunksHaveEveryItemOnce(t *testing.T) {
	for name, row := range map[string]struct{ count, size int }{
		"an empty list":           {0, 0},
		"one chunk":               {3, 100},
		"many chunks":             {500, 5 << 10},
		"items longer than chunk": {5, 3 * chunkBytes},
	} {
		t.Run(name, func(t *testing.T) {
			want := claimsOfSize(row.count, row.size)
			claims, next, largest, err := decodeAll(encoded(t, want))
			if err != nil || len(claims) != row.count || next != "more" {
				t.Fatalf("%d claims, continue %q, %v; want %d", len(claims), next, err, row.count)
			}
			for i := range claims {
				if claims[i].Name != want.Items[i].Name || claims[i].Annotations["notes"] != want.Items[i].Annotations["notes"] {
					t.Fatalf("claim %d is %s", i, claims[i].Name)
				}
			}
			if limit := chunkBytes + row.size + 1024; largest > limit {
				t.Errorf("a chunk has %d bytes, more than %d", largest, limit)
			}
		})
	}
}

// TestBrokenListIsAnError: a connection that ends early must not look like a cluster with fewer objects.
func TestBrokenListIsAnError(t *testing.T) {
	whole := encoded(t, claimsOfSize(20, 1000))
	const rest = 4 // the empty fields of the envelope after the list
	for cut := range len(whole) - rest {
		if _, _, _, err := decodeAll(whole[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes are no error", cut, len(whole))
		}
	}
	group := append([]byte("k8s\x00"), 1<<3|3) // a field of a type that no message has
	if _, _, _, err := decodeAll(group); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an unknown type of a field: %v", err)
	}
}

// BenchmarkChunks decodes a page of a thousand claims.
func BenchmarkChunks(b *testing.B) {
	text := encoded(b, claimsOfSize(1000, 2000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := decodeAll(text); err != nil {
			b.Fatal(err)
		}
	}
}
