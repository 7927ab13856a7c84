package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// raw reads paths of the API server without typed objects. It serves kinds that package kube does not know, and objects with every field.
type raw struct {
	rest *rest.RESTClient
	host string
}

func newRaw(config *rest.Config) (*raw, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // as in package kube
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &raw{rest: client, host: config.Host}, nil
}

// get returns the object at the path, or false if there is none.
func (r *raw) get(ctx context.Context, path string) ([]byte, bool, error) {
	body, err := r.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return body, err == nil, err
}

// post sends the object and decodes the response into answer.
func (r *raw) post(ctx context.Context, path string, object, answer any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing to %s: %w", path, err)
	}
	body, err = r.rest.Post().AbsPath(path).SetHeader("Accept", "application/json").SetHeader("Content-Type",
		"application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// url returns the URL of the path. client returns a client with credentials for this API server.
func (r *raw) url(path string) string { return r.rest.Get().AbsPath(path).URL().String() }

func (r *raw) client() *http.Client { return r.rest.Client }
