package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// row is a situation, described by a sentence.
type row struct {
	situation string
	in        Input
}

func check(t *testing.T, rows ...row) {
	t.Helper()
	var cases []build.Case
	for _, r := range rows {
		cases = append(cases, build.Case{Sentence: r.situation, By: api.Backup, World: r.in.Observed, Facts: inputWords(r.in),
			Decide: func() plan.Plan { return Decide(r.in) }})
	}
	build.Golden(t, cases)
}

// inputWords renders the parts of the input that are not observed objects.
func inputWords(in Input) []string {
	var words []string
	if in.Rejected != "" {
		words = append(words, "rejected: "+in.Rejected)
	}
	for name, w := range in.Warnings {
		words = append(words, "warning about "+name+": "+w.Reason+": "+w.Message)
	}
	for _, at := range in.Moved {
		words = append(words, "progress since: "+build.Now.Sub(at).String())
	}
	for _, v := range in.Unclaimed {
		words = append(words, "unclaimed volume: "+v.Name)
	}
	return words
}

func given(groups ...objects) Input {
	all := objects{build.Node()}
	for _, g := range groups {
		all = append(all, g...)
	}
	return Input{Input: moving.Input{Observed: build.World(all...), Settings: build.Settings()}}
}

// with returns the input after a change.
func with(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	old0 = "pv-data-web-0"
	id   = build.ID
)

// whileMoving returns the record of an operation whose only member is in the phase.
func whileMoving(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, web0)}, options...)...)
}

func set(record *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Template("data", "128Mi", "fixed"), build.Status(record)}, options...)...)}
}

func journal(claims ...string) objects {
	return objects{build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, claims...)), build.Age(time.Hour))}
}

func pod(ordinal int, options ...build.Option) objects {
	return objects{build.With(build.PodOf("web", ordinal, "data"), options...)}
}

// heldPod returns a stopped pod of the set with the finalizer of a hold.
func heldPod(ordinal int, options ...build.Option) objects {
	return pod(ordinal, append([]build.Option{build.Held(ordinal), build.Stopped()}, options...)...)
}

// unlinked returns a claim with its volume, without the link of an operation.
func unlinked(name string, options ...build.Option) objects {
	claim := build.Claim(name, "64Mi", options...)
	return objects{claim, build.VolumeOf(claim)}
}

// source returns a claim that is linked to the operation, with its retained volume.
func source(name string, options ...build.Option) objects {
	claim := build.Claim(name, "64Mi", append([]build.Option{build.Link(api.RoleSource, name)}, options...)...)
	return objects{claim, build.VolumeOf(claim, build.Retained(api.RoleSource, name))}
}

// target returns the temporary claim with the volume that was provisioned for it.
func target(name string, options ...build.Option) objects {
	claim := build.Target(name, "128Mi", options...)
	return objects{claim, build.VolumeOf(claim)}
}

// pending returns a temporary claim that has no volume yet.
func pending(name string, options ...build.Option) objects {
	return objects{build.Target(name, "128Mi", append([]build.Option{build.BoundTo("")}, options...)...)}
}

// provisioned makes the record name the new volume.
var provisioned = build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = "pv-new-data-web-0" })

// copying returns a set whose only member is copied, with everything that backup has created except the mover.
func copying(options ...func(*api.Resize)) objects {
	return append(set(whileMoving(api.MemberCopying, append([]func(*api.Resize){provisioned}, options...)...)),
		append(journal(web0), append(source(web0), target(web0)...)...)...)
}

// stopped returns a set whose only member has stopped for its final pass.
func stopped(options ...func(*api.Resize)) objects {
	all := append(set(whileMoving(api.MemberFinalPass, append([]func(*api.Resize){provisioned}, options...)...)),
		append(journal(web0), heldPod(0)...)...)
	return append(all, append(source(web0), target(web0)...)...)
}

// moverPod returns the mover's Job of the attempt and its pod.
func moverPod(attempt int, options ...build.Option) objects {
	job := build.Job(0, attempt)
	return objects{job, build.Mover(job, append([]build.Option{onNode}, options...)...)}
}

func onNode(o metav1.Object) { o.(*corev1.Pod).Spec.NodeName = build.NodeName }

// reporting makes the mover's container end with the report.
func reporting(container string, report moverreport.MemberReport, phase corev1.PodPhase) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		if container == moverreport.FinalContainer {
			build.FinalPassEnded(report)(p)
		} else {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{build.EndedContainer(container, report)}
		}
		p.Status.Phase = phase
	})
}

func failedJob(attempt int, options ...build.Option) objects {
	job := build.Job(0, attempt, build.Failed("BackoffLimitExceeded", "it has failed too often"))
	return objects{job, build.Mover(job, append([]build.Option{onNode, build.InPhase(corev1.PodFailed)}, options...)...)}
}

// signal tells the member's first mover that the member has stopped.
var signal = signalOf(&whileMoving(api.MemberFinalPass).Members[0])
