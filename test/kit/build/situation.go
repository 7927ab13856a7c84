package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Situation renders the observed world, one object per line. It leaves out the traits of a quiet set.
func Situation(o *world.Observed) []string {
	var lines []string
	if o.Set == nil {
		lines = append(lines, "set "+o.Name+": none")
	} else {
		lines = append(lines, line("set", o.Set, traitsOfSet(o.Set)), "has: "+recordOf(o))
	}
	for _, r := range o.Journals {
		lines = append(lines, line("journal", r, traitsOfJournal(r)))
	}
	for _, p := range o.Pods {
		lines = append(lines, line("pod", p, traitsOfPod(p)))
	}
	for _, c := range o.Claims {
		lines = append(lines, line("claim", c, traitsOfClaim(c)))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Volumes)) {
		lines = append(lines, line("volume", o.Volumes[name], traitsOfVolume(o.Volumes[name])))
	}
	for _, j := range o.Jobs {
		lines = append(lines, line("job", j, traitsOfJob(j)))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Nodes)) {
		if !statefulset.NodeReady(o.Nodes[name]) {
			lines = append(lines, line("node", o.Nodes[name], []string{"not ready"}))
		}
	}
	for _, a := range o.Attachments {
		lines = append(lines, line("attachment", a, nil))
	}
	return lines
}

// line renders one object.
func line(kind string, object metav1.Object, traits []string) string {
	traits = append(traits, metaTraits(object)...)
	if len(traits) == 0 {
		return fmt.Sprintf("%s %s", kind, object.GetName())
	}
	return fmt.Sprintf("%s %s: %s", kind, object.GetName(), strings.Join(traits, ", "))
}

// metaTraits renders the unusual metadata of an object.
func metaTraits(o metav1.Object) []string {
	var traits []string
	if uid := string(o.GetUID()); uid != "uid-"+o.GetName() && uid != "uid-journal" {
		traits = append(traits, uid)
	}
	if o.GetDeletionTimestamp() != nil {
		traits = append(traits, "being deleted")
	}
	if f := o.GetFinalizers(); !slices.Equal(f, []string{"kubernetes.io/pvc-protection"}) && len(f) > 0 {
		traits = append(traits, "finalizers "+strings.ReplaceAll(strings.Join(f, " "), api.Prefix, ""))
	}
	switch link, err := api.LoadLink(o); {
	case err != nil:
		traits = append(traits, "unreadable link")
	case link != nil:
		traits = append(traits, "link "+linkWords(link))
	}
	for _, key := range slices.Sorted(maps.Keys(o.GetAnnotations())) {
		if value := o.GetAnnotations()[key]; !slices.Contains(shownElsewhere, key) && len(value) < 80 {
			traits = append(traits, strings.TrimSuffix(strings.TrimPrefix(key, api.Prefix)+"="+value, "="))
		}
	}
	return traits
}

// shownElsewhere are annotations that another part of the situation shows, or that carry no information.
var shownElsewhere = []string{api.StatusAnnotation, api.OperationAnnotation, api.ClaimManifestAnnotation, api.RecreateAnnotation,
	api.SetMetadataAnnotation, api.ReclaimPolicyAnnotation, provisionedBy}

func linkWords(link *api.Link) string {
	words := string(link.Role)
	if link.Operation != ID {
		words += " of " + link.Operation
	}
	if link.Namespace != Namespace || link.Set.Name != "web" || link.Set.UID != "uid-web" {
		words += fmt.Sprintf(" on %s/%s %s", link.Namespace, link.Set.Name, link.Set.UID)
	}
	return words
}

func traitsOfSet(set *appsv1.StatefulSet) []string {
	traits := []string{fmt.Sprintf("replicas %d", *set.Spec.Replicas)}
	for _, t := range set.Spec.VolumeClaimTemplates {
		size := statefulset.Requested(&t)
		words := t.Name + " " + size.String()
		if attributes := statefulset.AttributesOf(&t); attributes != "" {
			words += "%" + attributes
		}
		traits = append(traits, words)
	}
	if !statefulset.Ordered(set) {
		traits = append(traits, "parallel")
	}
	if set.Status.UpdateRevision != set.Status.CurrentRevision {
		traits = append(traits, "rolls out "+set.Status.UpdateRevision)
	}
	return traits
}

func recordOf(o *world.Observed) string {
	record, err := o.Record()
	switch {
	case err != nil:
		return "a record that cannot be read"
	case record == nil:
		return "no record"
	}
	return Words(record)
}

func traitsOfJournal(r *appsv1.ControllerRevision) []string {
	journal, err := api.LoadJournal(r)
	if err != nil {
		return []string{"cannot be read"}
	}
	var traits []string
	for _, move := range journal.Record.Moves() {
		traits = append(traits, strings.TrimSuffix(fmt.Sprintf("%s from %s to %s", move.Claim, move.OldVolume, move.NewVolume), " to "))
	}
	if r.Annotations[api.RecreateAnnotation] != "" {
		traits = append(traits, "orders the set")
	}
	return traits
}

func traitsOfClaim(c *corev1.PersistentVolumeClaim) []string {
	size := statefulset.Requested(c)
	traits := []string{size.String()}
	if has := c.Status.Capacity[corev1.ResourceStorage]; !has.IsZero() {
		traits = append(traits, "has "+has.String())
	}
	switch {
	case c.Spec.VolumeName == "":
		traits = append(traits, "on no volume")
	case c.Status.Phase == corev1.ClaimBound:
		traits = append(traits, "on "+c.Spec.VolumeName)
	default:
		traits = append(traits, "asks for "+c.Spec.VolumeName)
	}
	if class := statefulset.ClassOf(c); class != Class {
		traits = append(traits, "class "+class)
	}
	if state := c.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; state != "" {
		tried := c.Status.AllocatedResources[corev1.ResourceStorage]
		traits = append(traits, fmt.Sprintf("%s to %s", state, &tried))
	}
	if asks, has := statefulset.AttributesOf(c), statefulset.CurrentAttributes(c); asks+has != "" {
		traits = append(traits, fmt.Sprintf("attributes %q, has %q%s", asks, has, statefulset.ModifyWords(c)))
	}
	if len(c.Finalizers) == 0 {
		traits = append(traits, "not protected")
	}
	for _, condition := range c.Status.Conditions {
		traits = append(traits, fmt.Sprintf("%s since %s", condition.Type, Now.Sub(condition.LastTransitionTime.Time).Round(time.Second)))
	}
	return traits
}

func traitsOfVolume(v *corev1.PersistentVolume) []string {
	traits := []string{string(v.Status.Phase), string(v.Spec.PersistentVolumeReclaimPolicy)}
	if ref := v.Spec.ClaimRef; ref != nil && ref.UID != "" {
		traits = append(traits, fmt.Sprintf("claimed by %s %s", ref.Name, ref.UID))
	} else if ref != nil {
		traits = append(traits, "reserved for "+ref.Name)
	}
	if claim, err := api.LoadClaim(v); err == nil && claim != nil {
		traits = append(traits, "keeps the manifest of "+claim.Name)
	}
	if v.Annotations[provisionedBy] == "" {
		traits = append(traits, "static")
	}
	return traits
}

func traitsOfPod(p *corev1.Pod) []string {
	traits := []string{string(p.Status.Phase)}
	if _, ready := statefulset.ReadySince(p); !ready && p.Status.Phase == corev1.PodRunning {
		traits = append(traits, "not ready")
	}
	if p.Spec.NodeName == "" {
		traits = append(traits, "on no node")
	}
	var uses []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			uses = append(uses, v.PersistentVolumeClaim.ClaimName)
		}
	}
	if len(uses) > 0 {
		traits = append(traits, "uses "+strings.Join(uses, " "))
	}
	if is := p.Labels[appsv1.ControllerRevisionHashLabelKey]; is != "" {
		traits = append(traits, "revision "+is)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		traits = append(traits, traitsOfContainer(c)...)
	}
	return traits
}

func traitsOfContainer(c corev1.ContainerStatus) []string {
	switch {
	case c.State.Waiting != nil:
		return []string{fmt.Sprintf("%s waits: %s", c.Name, c.State.Waiting.Reason)}
	case c.State.Terminated == nil:
		return nil
	}
	text := c.State.Terminated.Message
	report, err := moverreport.ParseMember([]byte(text))
	if text == "" || err != nil {
		return []string{fmt.Sprintf("%s ended: %s", c.Name, c.State.Terminated.Reason)}
	}
	words := fmt.Sprintf("%s reports %q", c.Name, report.Result)
	if report.Reason != "" {
		words += fmt.Sprintf(" %s", report.Reason)
	}
	if report.Signal != nil {
		words += fmt.Sprintf(" for hold %s attempt %d", report.Signal.Hold, report.Signal.Attempt)
	}
	return []string{words}
}

func traitsOfJob(j *batchv1.Job) []string {
	var traits []string
	for _, c := range j.Status.Conditions {
		traits = append(traits, strings.TrimSpace(string(c.Type)+" "+c.Reason))
	}
	return traits
}
