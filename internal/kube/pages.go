package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pageSize is the number of objects that ListPages requests at once.
	pageSize = 500
	// maxPages is the number of pages after which ListPages fails, so that a server can't fill the memory with endless pages. Kubernetes supports 150,000 pods.
	maxPages = 400
)

// ListPages lists objects page by page, so that no response is larger than the objects of one page. It fails if the list has more than 200,000 objects.
func ListPages(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	var all []runtime.Object
	next := ""
	for range maxPages {
		page, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("%T is no list of objects", list)
		}
		paged := append(options[:len(options):len(options)], client.Limit(pageSize), client.Continue(next))
		if err := c.List(ctx, page, paged...); err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		if all = append(all, items...); len(all) > maxPages*pageSize { // a server may ignore the limit of a page
			break
		}
		if next = page.GetContinue(); next == "" {
			list.SetResourceVersion(page.GetResourceVersion())
			return meta.SetList(list, all)
		}
	}
	return fmt.Errorf("there are more than %d objects", maxPages*pageSize)
}
