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

// Tenants decide the size of their objects, up to the 1.5 MiB that the API server stores. So a page is limited to pageBytes on the wire,
// twice as much when decoded, and an observation reads two pages at once. The first page has at most pageSize objects. Their size
// determines the limit of the next page: a namespace of 2,000 ordinary pods is read in eight pages.
const (
	pageSize  = 50
	pageBytes = 2 << 20
)

// errPageTooLong says that a page of several objects has more than pageBytes.
var errPageTooLong = errors.New("the page is too long; list fewer objects at once")

// Pages lists objects page by page and calls use with each page.
func Pages[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, c *Client, resource plan.Resource, namespace, selector string, page L, use func(L)) error {
	return pages(ctx, c, resource, namespace, metav1.ListOptions{LabelSelector: selector, Limit: pageSize}, page, use)
}

// Named lists the objects with the name, in one namespace or all, as Pages does.
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

// nextLimit returns the limit for the page after a page of limit objects and size bytes. The next objects may be half as large again. The
// limit grows at most eightfold, because a few small objects say little about the others.
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

// listText returns a page as it is sent over the wire.
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
	defer body.Close() // nothing was written
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
