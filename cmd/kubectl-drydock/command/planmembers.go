package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"drydock.dev/cmd/kubectl-drydock/forecast"
)

// printMembers prints the copied members, in the order of their moves.
func printMembers(out io.Writer, members []forecast.Member) error {
	if len(members) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ORDER\tMEMBER\tNODE\tSTATE\tFIRST PASS")
	for i, m := range members {
		fmt.Fprintln(table, strings.Join([]string{strconv.Itoa(i + 1), strconv.Itoa(m.Ordinal), orDash(m.Node), memberState(m), firstPass(m)},
			"\t"))
	}
	return table.Flush()
}

func memberState(m forecast.Member) string {
	switch {
	case m.Pod == "":
		return "no pod"
	case !m.Ready:
		return "not ready"
	case m.Primary:
		return "ready, primary"
	}
	return "ready"
}

func firstPass(m forecast.Member) string {
	if m.NoFirstPass != "" {
		return "none: " + m.NoFirstPass
	}
	return "while the pod runs"
}
