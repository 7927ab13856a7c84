package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/test/kit/build"
)

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
