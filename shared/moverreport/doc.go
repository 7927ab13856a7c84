// Package moverreport is the contract between the mover and the functions that start it: arguments, annotations, exit codes,
// reasons, progress lines and reports. The package imports the standard library only and does no I/O.
//
// # A mover that waits for its member
//
// One pod copies all claims of one member. It mounts both volumes of each claim: the claim's at SourceDir/<name>, read-only,
// and the new one at TargetDir/<name>; <name> is the volume claim template. Raw block volumes have their devices at these
// paths. It has three containers of one image. The first two have the same security context and the same volumes:
//
//   - the init container FirstContainer, with Order.FirstArgs, copies while the member runs. It makes first passes until the
//     forecast of the final pass is at most Order.MaxStop. It ends with CodeOK, or with CodeNotConverged if the forecast does
//     not fall any more. The report has both figures.
//   - the init container FinalContainer, with Order.FinalArgs, waits beside the running member. It makes further first passes, so
//     that the final pass stays short. When it reads SignalAnnotation, it makes the final pass. The member must be stopped then.
//   - the container PinContainer, with Order.PinArgs, starts after the final pass has succeeded. It mounts no claim and
//     copies nothing. As long as it runs, the pod's volumes stay attached to the node, so that the member finds them there. It
//     ends on SIGTERM, with CodeTerminated, or when its lease is lost, with CodeLeaseLost.
//
// The pod is Pending until PinContainer runs. The copy is complete when FinalContainer has terminated with CodeOK.
//
// FinalContainer and PinContainer read the pod's annotations from a downward API volume: PodInfoDir/AnnotationsFile, from the field
// metadata.annotations. The functions write two of them:
//
//   - LeaseAnnotation: a text that is not empty and changes with each renewal. If it does not change for Order.Lease by the
//     mover's clock, the mover ends with CodeLeaseLost. After FinalContainer has read the signal, its lease does not matter.
//   - SignalAnnotation: Signal.Encode, written once, after the member has provably stopped. The report of the final pass repeats
//     the Signal, so the reader knows which hold it belongs to. The mover does not check the signal. It reads only one signal.
//     Another attempt needs another pod.
//
// The mover reads a signal within about a fifth of a second after the kubelet has refreshed the file, also during a pass.
//
// FinalContainer ends with CodeNotConverged if the forecast was above Order.MaxStop after two passes in a row. SIGTERM ends all
// containers in every state, with CodeTerminated. Only Result "copied" with CodeOK means that the targets are verified copies.
// A killed pod can be replaced: the new pod resumes the copy. It copies no file again, and verifies all, because the volumes may have been
// unmounted between the two pods; PodVariable tells it. If the old pod was sent a signal, the new one needs Order.Refill.
//
// The first two containers write one MemberReport each to their termination message and, as the last line, to their log. The other lines
// of the log are Progress.
//
// # A mover of one pass
//
// `drydock copy` without first or final copies one claim in one pass. It writes Progress and, as its last line, the Report to
// its log, and the Report to its pod's termination message.
package moverreport
