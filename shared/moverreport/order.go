package moverreport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Containers of a waiting mover's pod.
const (
	FirstContainer = "first"
	FinalContainer = "final"
	PinContainer   = "pin"
)

// Paths in a waiting mover's pod. The directory or device of each claim has the claim's name, below SourceDir and TargetDir.
const (
	SourceDir       = "/source"
	TargetDir       = "/target"
	PodInfoDir      = "/podinfo"
	RecordDir       = "/records" // where FirstContainer leaves the records of verified files for FinalContainer
	AnnotationsFile = "annotations"
	ReportFile      = "/dev/termination-log"
)

// PodVariable is the environment variable of FirstContainer and FinalContainer with the UID of their pod (downward API, metadata.uid).
const PodVariable = "DRYDOCK_POD_UID"

// DefaultLease is how long a waiting mover, or a pin, runs without a renewal of its lease.
const DefaultLease = 2 * time.Minute

// Order is the task of the mover of one member.
type Order struct {
	Token     string        // the operation; a target begun by another operation is refused
	Member    string        // UID of the member's pod; files verified while another pod ran are read again
	Claims    []Claim       // in copy order
	MaxStop   time.Duration // the longest final pass
	Bandwidth int64         // bytes per second read and written beside the running member; 0 means no limit
	Lease     time.Duration // 0 means DefaultLease

	// Refill accepts completed targets. It is needed if an earlier mover of the operation was sent a signal and may have
	// completed some targets. A completed target has no marker any more. Without Refill it is refused with CodeTargetNotEmpty.
	Refill bool
}

// Claim is one claim of a member.
type Claim struct {
	Name   string // of the volume claim template
	Device bool   // a raw block volume
	Margin int    // percent of the target's size that must stay free; 0 disables the check
}

// FirstArgs returns the arguments of FirstContainer.
func (o Order) FirstArgs() []string {
	return append([]string{"copy", FirstContainer}, o.flags()...)
}

// FinalArgs returns the arguments of FinalContainer.
func (o Order) FinalArgs() []string {
	return append(append([]string{"copy", FinalContainer}, o.flags()...), o.lease())
}

// PinArgs returns the arguments of PinContainer.
func (o Order) PinArgs() []string { return []string{"copy", PinContainer, o.lease()} }

func (o Order) lease() string {
	lease := o.Lease
	if lease <= 0 {
		lease = DefaultLease
	}
	return "--lease=" + lease.String()
}

func (o Order) flags() []string {
	flags := []string{"--report=" + ReportFile, "--token=" + o.Token, "--member=" + o.Member, "--max-stop=" + o.MaxStop.String()}
	if o.Bandwidth > 0 {
		flags = append(flags, "--bandwidth="+strconv.FormatInt(o.Bandwidth, 10))
	}
	if o.Refill {
		flags = append(flags, "--refill")
	}
	for _, c := range o.Claims {
		flags = append(flags, "--claim="+c.String())
	}
	return flags
}

// String returns the claim in the format of the flag --claim: NAME[,device][,margin=PERCENT].
func (c Claim) String() string {
	text := c.Name
	if c.Device {
		text += ",device"
	}
	if c.Margin > 0 {
		text += ",margin=" + strconv.Itoa(c.Margin)
	}
	return text
}

// ParseClaim parses the result of String. The name must be one component of a path.
func ParseClaim(text string) (Claim, error) {
	parts := strings.Split(text, ",")
	c := Claim{Name: parts[0]}
	if c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsAny(c.Name, "/\x00") {
		return Claim{}, fmt.Errorf("%q does not begin with the name of a claim", text)
	}
	for _, part := range parts[1:] {
		percent, isMargin := strings.CutPrefix(part, "margin=")
		switch {
		case part == "device":
			c.Device = true
		case isMargin:
			n, err := strconv.Atoi(percent)
			if err != nil || n < 1 || n > 99 {
				return Claim{}, fmt.Errorf("claim %s: the margin %q is not a percentage from 1 to 99", c.Name, percent)
			}
			c.Margin = n
		default:
			return Claim{}, fmt.Errorf("claim %s: %q is invalid, only device and margin=PERCENT are known", c.Name, part)
		}
	}
	if c.Device && c.Margin > 0 {
		return Claim{}, fmt.Errorf("claim %s: a device has no free space, so it has no margin", c.Name)
	}
	return c, nil
}

// Annotations of a waiting mover's pod. The functions write them, the mover reads them.
const (
	// SignalAnnotation tells the mover that the member has stopped, and which hold keeps it stopped. The mover then makes its final pass.
	SignalAnnotation = "drydock.dev/final-pass"

	// LeaseAnnotation keeps the mover running while it waits: a text that changes with each renewal, for example a time.
	LeaseAnnotation = "drydock.dev/mover-lease"
)

// Signal says which hold a final pass belongs to. The report of the final pass repeats it.
type Signal struct {
	Hold    string `json:"hold"`    // UID of the held pod
	Attempt int    `json:"attempt"` // counts the holds of one pod
}

// signalLimit is the maximum size of a signal in bytes: it must fit into the report.
const signalLimit = 256

// Encode returns the value of SignalAnnotation.
func (s Signal) Encode() string {
	b, _ := json.Marshal(s) // impossible to fail with these types
	return string(b)
}

// ParseSignal parses the result of Encode.
func ParseSignal(text string) (Signal, error) {
	if len(text) > signalLimit {
		return Signal{}, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), signalLimit)
	}
	var s Signal
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Signal{}, err
	}
	if s.Hold == "" {
		return Signal{}, errors.New("it names no held pod")
	}
	return s, nil
}

// Instructions are the annotations that the functions have written for a waiting mover.
type Instructions struct {
	Signal *Signal // nil while the member runs
	Lease  string  // "" if there is none
}

// ParseInstructions parses the pod's annotations as the kubelet writes them to a downward API volume: one key="value"
// per line, the value quoted as in Go. It ignores all annotations except the mover's two. It returns the values that it
// can read, and an error for the others.
func ParseInstructions(annotations []byte) (Instructions, error) {
	var in Instructions
	var problems []error
	for line := range strings.Lines(string(annotations)) {
		key, quoted, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !found || key != SignalAnnotation && key != LeaseAnnotation {
			continue
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is incomplete", key))
			continue
		}
		if key == LeaseAnnotation {
			in.Lease = value
			continue
		}
		s, err := ParseSignal(value)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is not a signal: %w", key, err))
			continue
		}
		in.Signal = &s
	}
	return in, errors.Join(problems...)
}
