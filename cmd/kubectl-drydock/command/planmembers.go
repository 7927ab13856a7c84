package command

import (
	"fmt"
	"strconv"

	"drydock.dev/cmd/kubectl-drydock/forecast"
)

// memberRows returns a table of the copied members, in the order of their moves. It is empty if there are none.
func memberRows(set string, members []forecast.Member) [][]string {
	if len(members) == 0 {
		return nil
	}
	rows := [][]string{{"ORDER", "MEMBER", "NODE", "STATE", "FIRST PASS"}}
	for i, m := range members {
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("%s-%d", set, m.Ordinal), orDash(m.Node), memberState(m), firstPass(m)})
	}
	return rows
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
