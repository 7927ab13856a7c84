package acks

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Ledger holds every acknowledged line. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	members  map[string]*entry
	problems []string
}

// entry is the file of a member.
type entry struct {
	file    string
	acked   []bool // by line number
	count   int
	latest  time.Time
	drained bool // the file was handed over, so the member may begin another file
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{members: map[string]*entry{}} }

// Acknowledge records a line. It reports a problem if the line proves that the member's volume has lost data.
func (l *Ledger) Acknowledge(line Line, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.members[line.Member]
	if e == nil || e.drained && e.file != line.File {
		e = &entry{file: line.File}
		l.members[line.Member] = e
	}
	e.drained = false
	switch {
	case e.file != line.File:
		l.report("member %s writes to file %s, but file %s has %d acknowledged lines", line.Member, line.File, e.file, e.count)
	case e.has(line.Number):
		l.report("member %s wrote line %d twice, so its volume had lost the first one", line.Member, line.Number)
	default:
		e.add(line.Number, now)
	}
}

func (e *entry) has(number int) bool { return number < len(e.acked) && e.acked[number] }

func (e *entry) add(number int, now time.Time) {
	if number >= len(e.acked) {
		e.acked = append(e.acked, make([]bool, number+1-len(e.acked))...)
	}
	e.acked[number], e.latest = true, now
	e.count++
}

// highest returns the number of the latest acknowledged line, or 0.
func (e *entry) highest() int { return max(len(e.acked)-1, 0) }

func (l *Ledger) report(format string, args ...any) {
	if problem := fmt.Sprintf(format, args...); !slices.Contains(l.problems, problem) {
		l.problems = append(l.problems, problem)
	}
}

// Drain checks the whole file of a member, which is about to be deleted. Afterwards the member may begin another file. A cleanup can run
// twice, so a second call changes nothing.
func (l *Ledger) Drain(member, content string) {
	l.CheckFile(member, content)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.members[member]; e != nil {
		e.drained = true
	}
}

// CheckFile checks that the file holds every acknowledged line of the member, once and in order.
func (l *Ledger) CheckFile(member, content string) {
	lines := CompleteLines(content)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.members[member]
	if e == nil {
		if len(lines) > 1 { // the acknowledgement of the first line may be under way
			l.report("the file of member %s has %d lines, but none was acknowledged", member, len(lines))
		}
		return
	}
	for i, text := range lines {
		if want := (Line{e.file, member, i + 1}).String(); text != want {
			l.report("line %d of member %s is %q, want %q", i+1, member, text, want)
			return
		}
	}
	if len(lines) < e.highest() {
		l.report("the file of member %s has %d lines, but line %d was acknowledged", member, len(lines), e.highest())
	}
}

// Problems returns the problems so far.
func (l *Ledger) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}

// Members returns the members whose file exists, sorted.
func (l *Ledger) Members() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, e := range l.members {
		if !e.drained {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Latest returns the time of the member's latest acknowledgement.
func (l *Ledger) Latest(member string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.members[member]; e != nil {
		return e.latest
	}
	return time.Time{}
}

// Count returns the number of acknowledged lines in all present files.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for _, e := range l.members {
		total += e.count
	}
	return total
}
