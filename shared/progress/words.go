package progress

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// The words of the command line and of the status page. They may quote users, so whoever shows them makes them printable.

// IsTrouble reports whether an operation in the phase has failed or goes back. The record of an empty phase cannot be read.
func IsTrouble(phase api.Phase) bool {
	switch phase {
	case api.Failed, api.Refused, api.Reverting, api.Failing, "":
		return true
	}
	return false
}

// Words returns the state of the growth: a claim grows, or only gets another VolumeAttributesClass.
func (g Growth) Words() string {
	switch grows := g.To.Cmp(g.From) > 0; {
	case g.Done && grows:
		return "grown"
	case g.Done:
		return "changed"
	case grows:
		return "growing"
	}
	return "changing"
}

// Target returns what the claim becomes, as a request writes it: the size, and the classes if they change.
func (g Growth) Target() string { return target(g.To.String(), "", g.Attributes) }

// Target returns what the claim becomes, as a request writes it: the size, and the classes if they change.
func (c Claim) Target() string { return target(c.To.String(), c.Class, c.Attributes) }

func target(size, class string, attributes *string) string {
	if class != "" {
		size += "@" + class
	}
	if attributes != nil && *attributes != "" {
		size += "%" + *attributes
	}
	return size
}

// CopiedWords returns the copied bytes of the member, and all bytes if some are missing. It is empty before the first report.
func (m Member) CopiedWords() string {
	switch {
	case m.Bytes == 0:
		return ""
	case m.Copied >= m.Bytes:
		return text.Bytes(m.Bytes)
	}
	return text.Bytes(m.Copied) + " of " + text.Bytes(m.Bytes)
}

// FinalPassWords returns the bytes that the final pass wrote, as " (final pass 2 KiB)". It is empty before the end of that pass.
func (m Member) FinalPassWords() string {
	if m.FinalPassBytes == 0 {
		return ""
	}
	return " (final pass " + text.Bytes(m.FinalPassBytes) + ")"
}

// StopWords returns how long the member was, is, or will be stopped. It is empty if that is unknown.
func (m Member) StopWords() string {
	switch {
	case m.DownSeconds != nil && m.Phase == api.MemberMoved:
		return Age(seconds(*m.DownSeconds))
	case m.DownSeconds != nil:
		return Age(seconds(*m.DownSeconds)) + " so far"
	case m.ForecastSeconds > 0 && (m.Phase == api.MemberCopying || m.Phase == api.MemberWaiting):
		return "final pass of " + Age(seconds(int64(min(m.ForecastSeconds, 1e9))))
	}
	return ""
}

// seconds returns the duration, or the longest one. Users can write any number into a record.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(max(0, min(n, most))) * time.Second
}
