package build

import "k8s.io/apimachinery/pkg/api/resource"

func quantity(size string) resource.Quantity { return resource.MustParse(size) }
