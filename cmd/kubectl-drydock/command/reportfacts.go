package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/cmd/kubectl-drydock/report"
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// settingsConfigMap is the ConfigMap with the settings of all functions.
const settingsConfigMap = "drydock-settings"

const (
	// maxFactBytes limits the objects of a report, as the API server sends them.
	maxFactBytes = 32 << 20
	// maxEvents limits the Events, the newest ones.
	maxEvents = 1000
)

// reportFacts reads the objects around a set, and remembers what could not be read.
type reportFacts struct {
	*session
	set     *appsv1.StatefulSet
	size    int
	missing []string

	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
	jobs    []*batchv1.Job
	pods    []*corev1.Pod
	scalers []*v1alpha1.Scaler
}

// missed adds a sentence if the error says that something could not be read.
func (f *reportFacts) missed(what string, err error) {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		f.missing = append(f.missing, fmt.Sprintf("You may not read %s. Ask an administrator for the right, or for the report.", what))
	default:
		f.missing = append(f.missing, fmt.Sprintf("Reading %s failed: %s.", what, reasonOf(err)))
	}
}

// fits reports whether there is room for the object.
func (f *reportFacts) fits(object interface{ Size() int }) bool {
	if f.size += object.Size(); f.size <= maxFactBytes {
		return true
	}
	if sentence := fmt.Sprintf("Some objects are left out, because all have more than %d MiB.", maxFactBytes>>20); !slices.Contains(f.missing,
		sentence) {
		f.missing = append(f.missing, sentence)
	}
	return false
}

// groups returns all objects. Those that others depend on are read first.
func (f *reportFacts) groups(ctx context.Context) []report.Group {
	f.readClaims(ctx)
	f.readVolumes(ctx)
	f.readJobs(ctx)
	f.readPods(ctx)
	f.readScalers(ctx)
	return []report.Group{
		groupOf(f, "set.yaml", "StatefulSet", "the StatefulSet", []*appsv1.StatefulSet{f.set}),
		groupOf(f, "claims.yaml", "PersistentVolumeClaim", "its claims", f.claims),
		groupOf(f, "volumes.yaml", "PersistentVolume", "their volumes", f.volumes),
		groupOf(f, "classes.yaml", "StorageClass", "their StorageClasses", f.classes(ctx)),
		groupOf(f, "pods.yaml", "Pod", "its pods, and those of movers, hooks and cleanups", f.pods),
		groupOf(f, "jobs.yaml", "Job", "the Jobs of its operations", f.jobs),
		groupOf(f, "revisions.yaml", "ControllerRevision", "the ControllerRevisions of Drydock", f.revisions(ctx)),
		groupOf(f, "scalers.yaml", "Scaler", "its Scalers", f.scalers),
		groupOf(f, "events.yaml", "Event", "Events of these objects", f.events(ctx)),
	}
}

// groupOf returns the group of the objects, as JSON decodes them.
func groupOf[T runtime.Object](f *reportFacts, file, kind, about string, objects []T) report.Group {
	group := report.Group{File: file, Kind: kind, About: about}
	for _, object := range objects {
		decoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			f.missed(about, err)
			continue
		}
		decoded["kind"] = kind
		group.Objects = append(group.Objects, decoded)
	}
	return group
}

// isLinked reports whether the object belongs to an operation on the set.
func (f *reportFacts) isLinked(object metav1.Object) bool {
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Set.Name == f.name && link.Namespace == f.namespace
}

func (f *reportFacts) readClaims(ctx context.Context) {
	err := kube.Pages(ctx, f.client, plan.Claims, f.namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				claim := &l.Items[i]
				_, _, own := statefulset.ParseClaimName(f.set, claim.Name)
				if (own || f.isLinked(claim)) && f.fits(claim) {
					f.claims = append(f.claims, claim.DeepCopy())
				}
			}
		})
	f.missed("the claims", err)
}

// readVolumes reads the volumes that the claims or the record name. A volume that is gone is left out.
func (f *reportFacts) readVolumes(ctx context.Context) {
	var names []string
	for _, claim := range f.claims {
		names = append(names, claim.Spec.VolumeName)
	}
	if record := operation.Of(f.set).Resize; record != nil {
		for _, move := range record.Moves() {
			names = append(names, move.OldVolume, move.NewVolume)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		volume := &corev1.PersistentVolume{}
		found, err := f.client.Get(ctx, plan.Volumes, "", name, volume)
		if err != nil {
			f.missed("the volumes", err)
			return
		}
		if found && f.fits(volume) {
			f.volumes = append(f.volumes, volume)
		}
	}
}

// classes returns the StorageClasses of the claims.
func (f *reportFacts) classes(ctx context.Context) []*storagev1.StorageClass {
	var names []string
	for _, claim := range f.claims {
		if claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != "" {
			names = append(names, *claim.Spec.StorageClassName)
		}
	}
	slices.Sort(names)
	var classes []*storagev1.StorageClass
	for _, name := range slices.Compact(names) {
		class := &storagev1.StorageClass{}
		found, err := f.client.Get(ctx, kube.StorageClasses, "", name, class)
		if err != nil {
			f.missed("the StorageClasses", err)
			return classes
		}
		if found {
			classes = append(classes, class)
		}
	}
	return classes
}

func (f *reportFacts) readJobs(ctx context.Context) {
	err := kube.Pages(ctx, f.client, plan.Jobs, f.namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if job := &l.Items[i]; f.isLinked(job) && f.fits(job) {
				f.jobs = append(f.jobs, job.DeepCopy())
			}
		}
	})
	f.missed("the Jobs", err)
}

// readPods reads the members, the pods of the operations, and other pods that use a claim of the set.
func (f *reportFacts) readPods(ctx context.Context) {
	err := kube.Pages(ctx, f.client, plan.Pods, f.namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			if pod := &l.Items[i]; f.concerns(pod) && f.fits(pod) {
				f.pods = append(f.pods, pod.DeepCopy())
			}
		}
	})
	f.missed("the pods", err)
}

func (f *reportFacts) concerns(pod *corev1.Pod) bool {
	return statefulset.IsMemberName(f.name, pod.Name) || f.isLinked(pod) ||
		slices.ContainsFunc(f.jobs, func(job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }) ||
		slices.ContainsFunc(f.claims, func(claim *corev1.PersistentVolumeClaim) bool { return statefulset.Mounts(pod, claim.Name) })
}

// revisions returns Drydock's records outside of the set.
func (f *reportFacts) revisions(ctx context.Context) []*appsv1.ControllerRevision {
	var revisions []*appsv1.ControllerRevision
	err := kube.Pages(ctx, f.client, plan.ControllerRevisions, f.namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				revision := &l.Items[i]
				if api.RevisionLink(revision) != nil && f.isLinked(revision) && f.fits(revision) {
					revisions = append(revisions, revision.DeepCopy())
				}
			}
		})
	f.missed("the ControllerRevisions", err)
	return revisions
}

// readScalers reads the Scalers of the set. A cluster without their CustomResourceDefinition has none.
func (f *reportFacts) readScalers(ctx context.Context) {
	err := kube.Pages(ctx, f.client, plan.Scalers, f.namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			if l.Items[i].Spec.Target == f.name {
				f.scalers = append(f.scalers, l.Items[i].DeepCopy())
			}
		}
	})
	if !apierrors.IsNotFound(err) {
		f.missed("the Scalers", err)
	}
}

// events returns the newest Events of the objects, the oldest first.
func (f *reportFacts) events(ctx context.Context) []*corev1.Event {
	known := map[string]bool{"StatefulSet/" + f.name: true}
	for _, object := range f.claims {
		known["PersistentVolumeClaim/"+object.Name] = true
	}
	for _, object := range f.pods {
		known["Pod/"+object.Name] = true
	}
	for _, object := range f.jobs {
		known["Job/"+object.Name] = true
	}
	for _, object := range f.scalers {
		known["Scaler/"+object.Name] = true
	}
	var found []*corev1.Event
	err := kube.Pages(ctx, f.client, plan.Events, f.namespace, "", &corev1.EventList{}, func(l *corev1.EventList) {
		for i := range l.Items {
			e := &l.Items[i]
			if known[e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name] && f.fits(e) {
				found = append(found, e.DeepCopy())
			}
		}
	})
	f.missed("the Events", err)
	slices.SortStableFunc(found, func(a, b *corev1.Event) int { return latestOf(a).Compare(latestOf(b).Time) })
	return found[max(0, len(found)-maxEvents):]
}

// latestOf returns the time of the Event. New clients write another field than old ones.
func latestOf(e *corev1.Event) metav1.Time {
	return cmp.Or(e.LastTimestamp, metav1.NewTime(e.EventTime.Time), e.CreationTimestamp)
}

// settings returns the settings of the functions, or nil.
func (f *reportFacts) settings(ctx context.Context, home string) map[string]string {
	config := &corev1.ConfigMap{}
	found, err := f.client.Get(ctx, plan.ConfigMaps, home, settingsConfigMap, config)
	f.missed("ConfigMap "+settingsConfigMap+" in namespace "+home, err)
	if !found {
		return nil
	}
	return config.Data
}

// server returns the version of the API server and its platform, or "".
func (f *reportFacts) server(ctx context.Context) string {
	body, _, err := f.raw.get(ctx, "/version")
	if err != nil {
		f.missed("the version of the API server", err)
		return ""
	}
	var version struct{ GitVersion, Platform string }
	if err := json.Unmarshal(body, &version); err != nil {
		f.missed("the version of the API server", err)
		return ""
	}
	return "Kubernetes " + version.GitVersion + " " + version.Platform
}
