package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
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
// decoded from memory. A page of them is read again with fewer objects if it has more than jsonBytes.
const (
	pageSize    = 500
	mostObjects = 2000
	pageBytes   = 24 << 20
	jsonBytes   = 2 << 20
)

// errListFewer says that a page of several objects has more than jsonBytes.
var errListFewer = errors.New("the page is too long; list fewer objects at once")

// Pages lists objects page by page and calls use with each page.
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
		if err != nil {
			return err
		}
		options.Limit = nextLimit(options.Limit, size, target)
		if options.Continue = next; options.Continue == "" {
			return nil
		}
	}
	return nil
}

// decodeList decodes a list in JSON, or a chunk of one in protobuf. It decodes each item of a JSON list on its own: the API server stores
// custom resources of 10,000 levels, which is also the limit of Go's decoder, and a list has two levels more. A tenant could otherwise hide
// the objects of all others.
func decodeList(text []byte, into runtime.Object) error {
	if message, ok := into.(interface{ Unmarshal([]byte) error }); ok && !isJSON(text) {
		return message.Unmarshal(text)
	}
	rest, items := splitList(text)
	if err := runtime.DecodeInto(codecs.UniversalDeserializer(), rest, into); err != nil {
		return err
	}
	pointer, err := meta.GetItemsPtr(into)
	if err != nil {
		return err
	}
	all := reflect.ValueOf(pointer).Elem()
	for _, item := range items {
		object := reflect.New(all.Type().Elem())
		if err := runtime.DecodeInto(codecs.UniversalDeserializer(), item, object.Interface().(runtime.Object)); err != nil {
			return fmt.Errorf("item %d: %w", all.Len(), err)
		}
		all.Set(reflect.Append(all, object.Elem()))
	}
	return nil
}

// splitList returns the items of a list in JSON, and the list without them. It accepts items of any depth, and leaves the syntax to the
// decoder of the results.
func splitList(list []byte) (rest []byte, items [][]byte) {
	depth, inString, inItems, begin, from, to := 0, false, false, 0, len(list), len(list)
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case inString && c == '\\':
			i++ // the next character does not end the string
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			if depth == 1 {
				inItems = c == '[' // a list has no other array on this level
			}
			if depth == 2 && inItems {
				begin, from = i, min(from, i)
			}
			depth++
		case c == '}', c == ']':
			depth--
			if depth == 2 && inItems {
				items, to = append(items, list[begin:i+1]), i+1
			}
		}
	}
	if len(items) == 0 {
		return list, nil
	}
	return slices.Concat(list[:from], list[to:]), items
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
	if !isJSON(text) { // above all an empty answer, which would decode to an empty list
		return 0, 0, fmt.Errorf("listing %s: the answer of %d bytes is no list", resource, len(text))
	}
	return jsonBytes, len(text), decode(text)
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

// A list in protobuf is read in chunks: whole items with about chunkBytes together. So a page needs the memory of one chunk, or of its
// largest item, and one request can bring many objects.
const chunkBytes = 256 << 10

// protobufPrefix begins every object in protobuf (kubernetes staging apimachinery pkg/runtime/serializer/protobuf).
var protobufPrefix = []byte("k8s\x00")

// rawField is the number of the field with the object in the message runtime.Unknown, which surrounds it (apimachinery
// pkg/runtime/generated.proto).
const rawField = 2

// Wire types of protobuf that can be in such messages (protobuf.dev/programming-guides/encoding).
const (
	varintType = 0
	bytesType  = 2
)

// chunks calls use with the encoded fields of a list, some at a time, and returns the size of the list. Each piece is a valid encoding of a
// list with some of the items. The slice is valid only during the call.
func chunks(from *bufio.Reader, use func([]byte) error) (size int, err error) {
	if _, err := from.Discard(len(protobufPrefix)); err != nil {
		return 0, err
	}
	length, err := skipToRaw(from)
	if err != nil {
		return 0, fmt.Errorf("reading the envelope of a list: %w", err)
	}
	list := bufio.NewReader(io.LimitReader(from, int64(length)))
	var chunk bytes.Buffer
	for {
		n, err := copyField(&chunk, list)
		size += n
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			if uint64(size) < length {
				return size, io.ErrUnexpectedEOF
			}
			return size, use(chunk.Bytes()) // also if it is empty, so that an empty list is seen
		case err != nil:
			return size, fmt.Errorf("reading an item of a list: %w", err)
		case chunk.Len() >= chunkBytes:
			if err := use(chunk.Bytes()); err != nil {
				return size, err
			}
			chunk.Reset()
		}
	}
}

// skipToRaw reads the envelope up to the object, and returns the object's length.
func skipToRaw(from *bufio.Reader) (length uint64, err error) {
	for {
		key, err := binary.ReadUvarint(from)
		if err != nil {
			return 0, unexpected(err)
		}
		if key&7 != bytesType {
			return 0, fmt.Errorf("a field has type %d", key&7)
		}
		if length, err = binary.ReadUvarint(from); err != nil {
			return 0, unexpected(err)
		}
		if key>>3 == rawField {
			return length, nil
		}
		if _, err := io.CopyN(io.Discard, from, int64(length)); err != nil {
			return 0, unexpected(err)
		}
	}
}

// copyField copies one field with its key, and returns its size. At the end it returns io.EOF and 0.
func copyField(to *bytes.Buffer, from *bufio.Reader) (size int, err error) {
	before := to.Len()
	key, err := copyVarint(to, from)
	if err != nil {
		return to.Len() - before, err
	}
	length, err := copyVarint(to, from)
	if err != nil {
		return to.Len() - before, unexpected(err)
	}
	switch key & 7 {
	case varintType:
	case bytesType:
		_, err = io.CopyN(to, from, int64(length))
	default:
		err = fmt.Errorf("a field has type %d", key&7)
	}
	return to.Len() - before, unexpected(err)
}

func copyVarint(to *bytes.Buffer, from *bufio.Reader) (uint64, error) {
	n, err := binary.ReadUvarint(from)
	if err != nil {
		return 0, err
	}
	to.Write(binary.AppendUvarint(nil, n))
	return n, nil
}

// unexpected returns the error for an end in the middle of a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
