package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is a request of a client, taken apart.
type Request struct {
	*http.Request
	Key
	Part   string // a subresource, such as status
	By     Client
	DryRun bool
	body   []byte
}

// Writes reports whether the request changes a stored object. A Kubernetes Event does not count.
func (r *Request) Writes() bool {
	return r.Method != http.MethodGet && !r.DryRun && r.Resource != "events"
}

// Content returns the body of the request.
func (r *Request) Content() []byte { return r.body }

// Parse takes a request apart.
func Parse(r *http.Request) (*Request, error) {
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	p := &Request{Request: r, By: Client{r.Header.Get("Impersonate-User"), cmp.Or(r.URL.Query().Get("fieldManager"), agent)}}
	if r.Body != nil {
		var err error
		if p.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	// /api/VERSION or /apis/GROUP/VERSION, then perhaps /namespaces/NAME, then /RESOURCE/NAME/PART
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" {
		p.Namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&p.Resource, &p.Name, &p.Part} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	var options struct {
		DryRun        []string
		DeleteOptions metav1.DeleteOptions
	}
	_ = json.Unmarshal(p.body, &options) // a body that is no JSON object has no options
	p.DryRun = r.URL.Query().Has("dryRun") || r.Method != http.MethodPatch && len(options.DryRun)+len(options.DeleteOptions.DryRun) > 0
	return p, nil
}

// Serve answers the request.
func (s *Server) Serve(r *Request) *http.Response {
	content, err := s.serve(r)
	switch {
	case err != nil:
		return Refuse(r, err)
	case r.Method == http.MethodPost:
		return answer(r, http.StatusCreated, content)
	}
	return answer(r, http.StatusOK, content)
}

// Refuse returns the answer of a server that refuses the request.
func Refuse(r *Request, err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	failure := status.Status()
	failure.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return answer(r, int(failure.Code), &failure)
}

func answer(r *Request, code int, content any) *http.Response {
	body, is := content.([]byte)
	if !is {
		var err error
		if body, err = json.Marshal(content); err != nil {
			panic(err)
		}
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r.Request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
}

var success = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}

func (s *Server) serve(r *Request) (any, error) {
	kind, known := s.kinds[r.Resource]
	if !known {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.Resource}, r.Name)
	}
	o := s.Get(r.Key)
	switch {
	case r.Method == http.MethodGet && r.Name == "":
		return s.list(r, kind)
	case r.Method == http.MethodGet && o == nil || r.Method == http.MethodGet && r.Part != "":
		return nil, apierrors.NewNotFound(kind.resource(r.Resource), r.Name)
	case r.Method == http.MethodGet:
		return s.text(o), nil
	case r.Method == http.MethodPost && r.Part == "eviction":
		var eviction struct{ DeleteOptions metav1.DeleteOptions }
		if err := json.Unmarshal(r.body, &eviction); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return success, s.Evict(r.By, r.Key, eviction.DeleteOptions)
	case r.Method == http.MethodPost:
		created := &Object{}
		if err := created.UnmarshalJSON(r.body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if r.Resource == "events" {
			return created, nil
		}
		if kind.namespaced {
			created.SetNamespace(r.Namespace)
		}
		return s.Create(r.By, r.Resource, created, r.DryRun)
	case r.Method == http.MethodPatch:
		return s.patch(r)
	case r.Method == http.MethodPut:
		return s.Change(r.By, r.Key, r.Part, func(o *Object) error {
			version, uid := o.GetResourceVersion(), o.GetUID()
			if err := o.UnmarshalJSON(r.body); err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
			if o.GetResourceVersion() == "" {
				o.SetResourceVersion(version)
			}
			if o.GetUID() == "" {
				o.SetUID(uid)
			}
			return nil
		})
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(r.body, &options); len(r.body) > 0 && err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return success, s.Delete(r.By, r.Key, options)
	}
	return nil, apierrors.NewMethodNotSupported(kind.resource(r.Resource), r.Method)
}

func (s *Server) patch(r *Request) (*Object, error) {
	stored := s.Get(r.Key)
	edit := func(o *Object) error {
		text, err := s.text(stored), error(nil)
		switch types.PatchType(r.Header.Get("Content-Type")) {
		case types.JSONPatchType:
			var patch jsonpatch.Patch
			if patch, err = jsonpatch.DecodePatch(r.body); err == nil {
				text, err = patch.Apply(text)
			}
		case types.MergePatchType:
			text, err = jsonpatch.MergePatch(text, r.body)
		case types.StrategicMergePatchType:
			var typed runtime.Object
			if typed, err = scheme.Scheme.New(o.GroupVersionKind()); err == nil {
				text, err = strategicpatch.StrategicMergePatch(text, r.body, typed)
			}
		default:
			return apierrors.NewBadRequest("unknown patch type " + r.Header.Get("Content-Type"))
		}
		if err != nil { // kubernetes staging apiserver pkg/endpoints/handlers/patch.go answers with empty details
			return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return o.UnmarshalJSON(text)
	}
	if r.DryRun && stored != nil {
		return stored, nil
	}
	return s.Change(r.By, r.Key, r.Part, edit)
}

func (s *Server) list(r *Request, kind kind) ([]byte, error) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fieldSelector, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var texts [][]byte
	for _, o := range s.List(r.Resource) {
		named := fields.Set{}
		for _, asked := range fieldSelector.Requirements() {
			named[asked.Field], _, _ = unstructured.NestedString(o.Object, strings.Split(asked.Field, ".")...)
		}
		if (r.Namespace == "" || o.GetNamespace() == r.Namespace) && selector.Matches(labels.Set(o.GetLabels())) && fieldSelector.Matches(named) {
			texts = append(texts, s.text(o))
		}
	}
	if s.Backwards {
		slices.Reverse(texts)
	}
	from, _ := strconv.Atoi(query.Get("continue"))
	texts, next := texts[min(from, len(texts)):], ""
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && limit < len(texts) {
		texts, next = texts[:limit], strconv.Itoa(from+limit)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":"%sList","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		kind.gvk().GroupVersion(), kind.name, s.version, next, bytes.Join(texts, []byte(","))), nil
}
