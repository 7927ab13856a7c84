package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"drydock.dev/cmd/kubectl-drydock/progress"
	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

func printProgress(out io.Writer, d *progress.Document) error {
	if len(d.Members)+len(d.Growing) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(d.Growing) > 0 {
		fmt.Fprintln(table, "CLAIM\tGROWS\tSTATE")
	}
	for _, g := range d.Growing {
		state := "growing"
		switch grows := g.To.Cmp(g.From) > 0; {
		case g.Done && grows:
			state = "grown"
		case g.Done:
			state = "changed"
		case !grows:
			state = "changing"
		}
		fmt.Fprintln(table, strings.Join([]string{text.Printable(g.Claim), change(g.From.String(), sizeAndClass(g.To.String(), "", g.Attributes)),
			state}, "\t"))
	}
	if len(d.Growing) > 0 && len(d.Members) > 0 {
		fmt.Fprintln(table)
	}
	if len(d.Members) > 0 {
		fmt.Fprintln(table, "MEMBER\tPHASE\tCLAIMS\tCOPIED\tSTOP\tWAITS FOR")
	}
	for _, m := range d.Members {
		fmt.Fprintln(table, strings.Join([]string{fmt.Sprint(m.Ordinal), string(m.Phase), movesOf(m), copied(m), stopTime(m),
			orDash(text.Printable(m.Waits))}, "\t"))
	}
	return table.Flush()
}

func movesOf(m progress.Member) string {
	var words []string
	for _, c := range m.Claims {
		words = append(words, text.Printable(c.Template+" "+change(c.From.String(), sizeAndClass(c.To.String(), c.Class, c.Attributes))))
	}
	return strings.Join(words, ", ")
}

// sizeAndClass returns the size with the StorageClass and VolumeAttributesClass, as a request writes them.
func sizeAndClass(size, class string, attributes *string) string {
	if class != "" {
		size += "@" + class
	}
	if attributes != nil && *attributes != "" {
		size += "%" + *attributes
	}
	return text.Printable(size)
}

func copied(m progress.Member) string {
	switch {
	case m.Bytes == 0:
		return "-"
	case m.Copied >= m.Bytes:
		return bytesWords(m.Bytes)
	}
	return fmt.Sprintf("%s of %s", bytesWords(m.Copied), bytesWords(m.Bytes))
}

// stopTime returns how long the member was, is, or will be stopped.
func stopTime(m progress.Member) string {
	switch {
	case m.DownSeconds != nil && m.Phase == api.MemberMoved:
		return fmt.Sprintf("%d s", *m.DownSeconds)
	case m.DownSeconds != nil:
		return fmt.Sprintf("%d s so far", *m.DownSeconds)
	case m.ForecastSeconds > 0 && (m.Phase == api.MemberCopying || m.Phase == api.MemberWaiting):
		return fmt.Sprintf("final pass of %.0f s", m.ForecastSeconds)
	}
	return "-"
}
