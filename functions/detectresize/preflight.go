package detectresize

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

const (
	// maxClaims keeps the status document well within the 256 KiB that all annotations of an object may have.
	maxClaims = 256
	// maxManifest leaves room in the same limit for the set's manifest while it is created again.
	maxManifest = 200 << 10
	// revisionHash is the longest hash that the StatefulSet controller appends to a set's name for the label
	// controller-revision-hash of its pods.
	revisionHash = 10
)

// preflight looks for everything that could stop the resize half way, before anything is touched.
func preflight(in Input, w *wish) *problem {
	for _, check := range []func(Input, *wish) *problem{
		checkMethods, checkNames, checkOwner, checkMover, checkClasses, checkClaims, checkLimits, checkQuotas,
	} {
		if found := check(in, w); found != nil {
			return found
		}
	}
	return nil
}

func checkNames(in Input, w *wish) *problem {
	if len(in.Set.Name)+1+revisionHash > validation.LabelValueMaxLength {
		return refuse(api.NameTooLong, "StatefulSet name %s has %d characters; above %d its pods' label controller-revision-hash gets too long "+
			"and they may not start again after a stop; move the data to a set with a shorter name",
			in.Set.Name, len(in.Set.Name), validation.LabelValueMaxLength-1-revisionHash)
	}
	if len(w.claims) > maxClaims {
		return refuse(api.TooManyClaims, "%d claims are to be resized, one operation takes at most %d; name fewer templates in %s",
			len(w.claims), maxClaims, api.ResizeAnnotation)
	}
	if w.recreate && len(api.EncodeManifest(in.Set)) > maxManifest {
		return refuse(api.TooManyClaims, "the manifest of StatefulSet %s has more than %d bytes, too many to be kept safe while the set is created again; "+
			"delete it with --cascade=orphan and apply it with the new template yourself", in.Set.Name, maxManifest)
	}
	return nil
}

func checkOwner(in Input, w *wish) *problem {
	if !w.recreate && !slices.ContainsFunc(w.claims, claim.copied) {
		return nil // nothing that an owner would undo
	}
	owner := sts.Controller(in.Set)
	if owner == nil || api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore {
		return nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if _, known := in.Registry.Find(gv.Group, owner.Kind); known && err == nil {
		return nil // pause-owner pauses it, or finds out why it cannot
	}
	return refuse(api.OwnerNotPausable, "%s %s (%s) controls StatefulSet %s and would undo its stop; %s: "+
		"pause it yourself, then set the annotation %s=%s and ask again with %s",
		owner.Kind, owner.Name, owner.APIVersion, in.Set.Name, owners.Unknown(gv.Group, owner.Kind), api.OwnerPolicyAnnotation, api.OwnerIgnore, api.RetryAnnotation)
}

func checkMover(in Input, w *wish) *problem {
	if !slices.ContainsFunc(w.claims, claim.copied) {
		return nil
	}
	if _, err := resources.MoverUser(in.Set, in.Cluster.RootMovers); err != nil {
		return refuse(api.RootMoverNeeded, "%v", err)
	}
	if _, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig); err != nil {
		return refuse(api.MoverInvalid, "%v; mend it, then ask again with %s", err, api.RetryAnnotation)
	}
	return nil
}

func checkClasses(in Input, w *wish) *problem {
	for _, t := range w.templates {
		if t.Class != "" && in.Cluster.Classes[t.Class] == nil {
			return refuse(api.UnknownClass, "storage class %s, asked for template %s, does not exist; kubectl get storageclass lists those there are",
				t.Class, t.Name)
		}
	}
	for _, c := range w.claims {
		if class := w.class(c.Claim); class == "" || in.Cluster.Classes[class] == nil {
			return refuse(api.UnknownClass, "claim %s is of storage class %q, which does not exist, so no new volume can be provisioned; "+
				"name a class in %s", c.Name, class, api.ResizeAnnotation)
		}
	}
	return nil
}

// class is the StorageClass that the claim's new volume will have.
func (w *wish) class(c sts.Claim) string {
	if class := w.target(c.Template).Class; class != "" {
		return class
	}
	return sts.ClassOf(c.PersistentVolumeClaim)
}

func checkClaims(in Input, w *wish) *problem {
	for _, c := range w.claims {
		size, target := sts.Requested(c.PersistentVolumeClaim), w.size(c)
		switch {
		case !sts.Belongs(c.PersistentVolumeClaim, in.Set):
			return refuse(api.ForeignClaim, "claim %s has the name of one of StatefulSet %s but not the labels of its selector, or another owner; "+
				"if it is the set's, give it the labels %v", c.Name, in.Set.Name, in.Set.Spec.Selector.MatchLabels)
		case c.DeletionTimestamp != nil:
			return refuse(api.ClaimBusy, "claim %s is being deleted; wait until it is gone, then ask again with %s", c.Name, api.RetryAnnotation)
		case c.copied() && sts.IsBlock(c.PersistentVolumeClaim) && size.Cmp(target) > 0:
			return refuse(api.ShrinkRefused, "claim %s is a raw block volume of %s; nothing tells how much of it is in use, so it cannot be copied to one of %s",
				c.Name, &size, &target)
		}
		if !c.copied() {
			continue
		}
		for _, pod := range in.Users(c.Name) {
			if !sts.IsPodOf(pod, in.Set) {
				return refuse(api.ForeignConsumer, "pod %s uses claim %s and is not one of StatefulSet %s; stop it, then ask again with %s",
					pod.Name, c.Name, in.Set.Name, api.RetryAnnotation)
			}
		}
	}
	return nil
}

func checkLimits(in Input, w *wish) *problem {
	for _, limits := range in.Cluster.Limits {
		for _, item := range limits.Spec.Limits {
			if item.Type != corev1.LimitTypePersistentVolumeClaim {
				continue
			}
			for _, t := range w.templates {
				if largest, ok := item.Max[corev1.ResourceStorage]; ok && t.Size.Cmp(largest) > 0 {
					return refuse(api.LimitExceeded, "LimitRange %s allows claims of at most %s, template %s is to have %s; raise the limit or ask for less",
						limits.Name, &largest, t.Name, &t.Size)
				}
				if least, ok := item.Min[corev1.ResourceStorage]; ok && t.Size.Cmp(least) < 0 {
					return refuse(api.LimitExceeded, "LimitRange %s asks claims for at least %s, template %s is to have %s; ask for more",
						limits.Name, &least, t.Name, &t.Size)
				}
			}
		}
	}
	return nil
}

// checkQuotas makes sure that all new claims fit beside the old ones.
func checkQuotas(in Input, w *wish) *problem {
	need := w.need()
	for _, quota := range in.Cluster.Quotas {
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			hard := quota.Status.Hard[name]
			more, counted := need[name]
			if !counted {
				continue
			}
			used := quota.Status.Used[name]
			sum := used.DeepCopy()
			sum.Add(more)
			if sum.Cmp(hard) > 0 {
				return refuse(api.QuotaExceeded, "ResourceQuota %s allows %s of %s, %s are used and the resize needs %s more; "+
					"raise the quota for the time of the resize, then ask again with %s", quota.Name, &hard, name, &used, &more, api.RetryAnnotation)
			}
		}
	}
	return nil
}

// need is what the new claims count for, under every name that a quota may give it
// (kubernetes pkg/quota/v1/evaluator/core/persistent_volume_claims.go).
func (w *wish) need() corev1.ResourceList {
	need := corev1.ResourceList{}
	add := func(name string, quantity resource.Quantity) {
		sum := need[corev1.ResourceName(name)]
		sum.Add(quantity)
		need[corev1.ResourceName(name)] = sum
	}
	one := resource.MustParse("1")
	for _, c := range w.claims {
		size := w.size(c).DeepCopy()
		if !c.copied() {
			size.Sub(sts.Requested(c.PersistentVolumeClaim))
		}
		ofClass := w.class(c.Claim) + ".storageclass.storage.k8s.io/"
		add(string(corev1.ResourceRequestsStorage), size)
		add(ofClass+string(corev1.ResourceRequestsStorage), size)
		if !c.copied() {
			continue
		}
		for _, count := range []string{string(corev1.ResourcePersistentVolumeClaims), "count/persistentvolumeclaims", ofClass + string(corev1.ResourcePersistentVolumeClaims)} {
			add(count, one)
		}
	}
	return need
}
