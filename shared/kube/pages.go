package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

// Tenants decide the size of their objects, up to the 1.5 MiB that the API server stores. So the size of each page determines how many
// objects the next one may have. The first page has at most pageSize objects.
//
// A page in protobuf is decoded in chunks, so its size costs the function no memory. Its limits protect the API server, which may build
// the whole page in memory: mostObjects, and pageBytes, which the following page should have. Custom resources have only JSON, which is
// decoded as a whole. A page of them is read again with fewer objects if it has more than jsonBytes.
const (
	pageSize    = 500
	mostObjects = 2000
	pageBytes   = 24 << 20
	jsonBytes   = 2 << 20
)

// errListFewer says that a page of several objects has more than jsonBytes, or cannot be decoded.
var errListFewer = errors.New("the page is too long, or cannot be decoded; list fewer objects at once")

// UnreadableError names an object that a list had to leave out, because no decoder of JSON accepts it in a list. The API server stores
// 10,000 levels of a custom resource, and a list of it has two more, which are too many.
type UnreadableError struct {
	Resource plan.Resource
	// Object is namespace/name.
	Object string
	Cause  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("cannot read %s %s in a list: %v. Delete it", e.Resource, e.Object, e.Cause)
}

func (e *UnreadableError) Unwrap() error { return e.Cause }

// Pages lists objects page by page and calls use with each page. It leaves out objects that cannot be decoded, and returns an
// UnreadableError for them after the last page.
func Pages[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace, selector string, page L, use func(L)) error {
	return pages(ctx, c, resource, namespace, metav1.ListOptions{LabelSelector: selector}, noEnd, page, use)
}

// Named lists the objects with the name, in one namespace or all, as Pages does.
func Named[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace, name string, page L, use func(L)) error {
	return pages(ctx, c, resource, namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, noEnd, page, use)
}

// noEnd lets pages read all pages.
const noEnd = math.MaxInt

// pages reads at most the given number of pages.
func pages[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace string, options metav1.ListOptions, most int, page L,
	use func(L)) error {
	options.Limit = pageSize
	var leftOut error
	for range most {
		next := ""
		decode := func(text []byte) error {
			part := page.DeepCopyObject().(L)
			if err := decodeList(text, part); err != nil {
				return fmt.Errorf("reading the list of %s: %w", resource, err)
			}
			next += part.GetContinue() // only one part has the metadata of the list
			use(part)
			return nil
		}
		target, size, err := c.readPage(ctx, resource, namespace, &options, decode)
		var single *undecodable
		switch {
		case errors.As(err, &single):
			var object string
			next, object = outline(single.text)
			leftOut = errors.Join(leftOut, &UnreadableError{resource, object, single.error})
		case err != nil:
			return err
		default:
			options.Limit = nextLimit(options.Limit, size, target)
		}
		if options.Continue = next; options.Continue == "" {
			return leftOut
		}
	}
	return leftOut
}

// undecodable is the error for a page with one object that cannot be decoded.
type undecodable struct {
	error
	text []byte
}

// outline returns the continue token of a list in JSON, and namespace/name of its last object. It accepts any depth.
func outline(list []byte) (next, object string) {
	type level struct {
		key   string
		value bool // a value follows: the key was read, or the level is a list
		list  bool
	}
	var levels []level
	decoder, namespace, name := json.NewDecoder(bytes.NewReader(list)), "", ""
	decoder.UseNumber() // any number is accepted
	for {
		token, err := decoder.Token()
		if err != nil {
			return next, namespace + "/" + name
		}
		depth := len(levels)
		if delim, ok := token.(json.Delim); ok && (delim == '{' || delim == '[') {
			levels = append(levels, level{list: delim == '[', value: delim == '['})
			continue
		} else if ok {
			levels = levels[:depth-1]
			depth--
		} else if depth > 0 && !levels[depth-1].value {
			levels[depth-1].key, levels[depth-1].value = token.(string), true
			continue
		}
		if depth == 0 {
			continue
		}
		value, _ := token.(string)
		inObject := depth == 4 && levels[0].key == "items" && levels[2].key == "metadata"
		switch last := levels[depth-1].key; {
		case depth == 2 && levels[0].key == "metadata" && last == "continue":
			next = value
		case inObject && last == "namespace":
			namespace = value
		case inObject && last == "name":
			name = value
		}
		levels[depth-1].value = levels[depth-1].list
	}
}

// decodeList decodes a list in JSON, or a chunk of one in protobuf.
func decodeList(text []byte, into runtime.Object) error {
	if message, ok := into.(interface{ Unmarshal([]byte) error }); ok && !isJSON(text) {
		return message.Unmarshal(text)
	}
	return runtime.DecodeInto(codecs.UniversalDeserializer(), text, into)
}

// isJSON reports whether the text is JSON. A list in protobuf begins with the key of a field, which is never an opening brace: field 15 of
// type 3 does not exist.
func isJSON(text []byte) bool { return len(text) > 0 && text[0] == '{' }

// nextLimit returns the limit for the page after a page of limit objects and size bytes, which should have target bytes. The next objects
// may be half as large again. The limit grows at most eightfold, because a few small objects say little about the others.
func nextLimit(limit int64, size, target int) int64 {
	return max(1, min(limit*8, mostObjects, limit*int64(target*2/3)/int64(max(1, size))))
}

// readPage reads one page of objects, decodes it in one or more parts, and returns its size and the target for the size of the next page.
func (c *Client) readPage(ctx context.Context, resource plan.Resource, namespace string, options *metav1.ListOptions,
	decode func([]byte) error) (target, size int, err error) {
	for {
		target, size, err = c.tryPage(ctx, resource, namespace, options, decode)
		if !errors.Is(err, errListFewer) {
			return target, size, err
		}
		options.Limit = max(1, options.Limit/4)
	}
}

func (c *Client) tryPage(ctx context.Context, resource plan.Resource, namespace string, options *metav1.ListOptions,
	decode func([]byte) error) (target, size int, err error) {
	client, err := c.rest(resource)
	if err != nil {
		return 0, 0, err
	}
	body, err := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).
		VersionedParams(options, parameters).Stream(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("listing %s: %w", resource, fault.FromAPI(err))
	}
	defer body.Close() // nothing was written
	from := bufio.NewReader(body)
	if begin, _ := from.Peek(len(protobufPrefix)); bytes.Equal(begin, protobufPrefix) {
		size, err = chunks(from, decode)
		if err != nil {
			err = fmt.Errorf("listing %s: %w", resource, fault.FromAPI(err))
		}
		return pageBytes, size, err
	}
	text, err := readJSON(from, options.Limit)
	if errors.Is(err, errListFewer) {
		return 0, 0, err
	}
	if err != nil {
		return 0, 0, fmt.Errorf("listing %s: %w", resource, fault.FromAPI(err))
	}
	switch err := decode(text); {
	case err != nil && options.Limit > 1:
		return 0, 0, errListFewer
	case err != nil:
		return 0, 0, &undecodable{err, text}
	}
	return jsonBytes, len(text), nil
}

// readJSON returns a page of at most limit objects as it is sent over the wire.
func readJSON(from io.Reader, limit int64) ([]byte, error) {
	if limit > 1 {
		from = io.LimitReader(from, jsonBytes+1)
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	if limit > 1 && len(text) > jsonBytes {
		return nil, errListFewer
	}
	return text, nil
}
