package show

import (
	"fmt"
	"strings"
)

// barWidth is the width of a bar in characters.
const barWidth = 24

// Bar is the progress of one piece of work.
type Bar struct {
	Name  string
	Note  string // the present activity
	Done  int64  // bytes
	Total int64  // bytes; zero if not known yet
	// Amount replaces the numbers of bytes if the work is not measured in bytes.
	Amount string
}

// String renders the bar on one line.
func (b Bar) String() string {
	full := barWidth * b.percent() / 100
	return fmt.Sprintf("%-12s %s%s %3d%%  %13s  %s", b.Name, strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
		b.percent(), b.amount(), b.Note)
}

// percent rounds down, so that 100 means done.
func (b Bar) percent() int {
	if b.Total <= 0 {
		return 0
	}
	return int(min(max(b.Done, 0), b.Total) * 100 / b.Total)
}

func (b Bar) amount() string {
	if b.Amount != "" {
		return b.Amount
	}
	if b.Total <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f/%.1f MiB", MiB(b.Done), MiB(b.Total))
}

// MiB converts bytes to MiB.
func MiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }
