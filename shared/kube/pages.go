package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

// Tenants decide how large their objects are, up to the 1.5 MiB that the API server stores. So a page is bounded by pageBytes on the wire,
// which is twice that when it is decoded. A look reads two pages at once. The first page has at most pageSize objects, and how large they are
// tells how many the next one may have: a namespace of 2,000 ordinary pods is read in eight pages.
const (
	pageSize  = 50
	pageBytes = 2 << 20
)

// errPageTooLong says that a page of more than one object has more than pageBytes.
var errPageTooLong = errors.New("the page is too long; list fewer objects at once")

// Pages lists page after page and hands each to use.
func Pages[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace, selector string, page L, use func(L)) error {
	return pages(ctx, c, resource, namespace, metav1.ListOptions{LabelSelector: selector, Limit: pageSize}, page, use)
}

// Named lists the objects of one name, of every namespace or of one, as Pages does.
func Named[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace, name string, page L, use func(L)) error {
	return pages(ctx, c, resource, namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: pageSize}, page, use)
}

func pages[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace string, options metav1.ListOptions, page L, use func(L)) error {
	for {
		fresh := page.DeepCopyObject().(L)
		size, err := c.listPage(ctx, resource, namespace, &options, fresh)
		if err != nil {
			return err
		}
		use(fresh)
		if options.Continue = fresh.GetContinue(); options.Continue == "" {
			return nil
		}
		options.Limit = nextLimit(options.Limit, size)
	}
}

// nextLimit returns how many objects the page after one of limit objects and size bytes may have. They may be half as large again as those
// before. It grows by no more than eight times: the sizes of a few small objects say little about the others.
func nextLimit(limit int64, size int) int64 {
	return max(1, min(limit*8, limit*(pageBytes*2/3)/int64(max(1, size))))
}

// listPage reads one page of objects and returns its size in bytes. It lowers the limit until the page is short enough.
func (c *Client) listPage(
	ctx context.Context, resource plan.Resource, namespace string, options *metav1.ListOptions, into runtime.Object,
) (size int, err error) {
	for {
		text, err := c.listText(ctx, resource, namespace, options)
		switch {
		case errors.Is(err, errPageTooLong):
			options.Limit = max(1, options.Limit/4)
		case err != nil:
			return 0, fmt.Errorf("listing %s: %w", resource, fault.FromAPI(err))
		default:
			if err := runtime.DecodeInto(codecs.UniversalDeserializer(), text, into); err != nil {
				return 0, fmt.Errorf("reading the list of %s: %w", resource, err)
			}
			return len(text), nil
		}
	}
}

// listText reads a page as it comes over the wire.
func (c *Client) listText(ctx context.Context, resource plan.Resource, namespace string, options *metav1.ListOptions) ([]byte, error) {
	client, err := c.rest(resource)
	if err != nil {
		return nil, err
	}
	body, err := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).
		VersionedParams(options, parameters).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // nothing was written
	from := io.Reader(body)
	if options.Limit > 1 {
		from = io.LimitReader(body, pageBytes+1)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(from); err != nil {
		return nil, err
	}
	if options.Limit > 1 && text.Len() > pageBytes {
		return nil, errPageTooLong
	}
	return text.Bytes(), nil
}
