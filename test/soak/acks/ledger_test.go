package acks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// file returns the content of a member's file with that many lines.
func file(id, member string, count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintln(&b, Line{id, member, i + 1})
	}
	return b.String()
}

// ledger returns a ledger in which the member web-0 has three acknowledged lines in the file a1.
func ledger() *Ledger {
	l := NewLedger()
	for i := range 3 {
		l.Acknowledge(Line{"a1", "web-0", i + 1}, time.Now())
	}
	return l
}

func expect(t *testing.T, name string, l *Ledger, want string) {
	t.Helper()
	got := strings.Join(l.Problems(), "; ")
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestLostLinesAreReported(t *testing.T) {
	whole := file("a1", "web-0", 3)
	for name, row := range map[string]struct{ content, want string }{
		"every line":                   {whole, ""},
		"a line that was not answered": {file("a1", "web-0", 4), ""},
		"an incomplete last line":      {whole + "a1 web-0", ""},
		"the last line is lost":        {file("a1", "web-0", 2), "has 2 lines, but line 3 was acknowledged"},
		"a line in the middle is lost": {"a1 web-0 1\na1 web-0 3\n", `line 2 of member web-0 is "a1 web-0 3", want "a1 web-0 2"`},
		"a line is there twice":        {"a1 web-0 1\n" + whole, "line 2 of member web-0"},
		"lines are in another order":   {"a1 web-0 2\na1 web-0 1\na1 web-0 3\n", "line 1 of member web-0"},
		"a byte is wrong":              {strings.Replace(whole, "2", "x", 1), "line 2 of member web-0"},
		"a block of zeros":             {strings.Repeat("\x00", 20) + "\n" + whole, "line 1 of member web-0"},
		"an empty volume":              {"", "has 0 lines, but line 3 was acknowledged"},
		"the volume of another member": {file("b2", "web-1", 3), "line 1 of member web-0"},
		"another file of the member":   {file("c3", "web-0", 3), "line 1 of member web-0"},
	} {
		l := ledger()
		l.CheckFile("web-0", row.content)
		expect(t, name, l, row.want)
	}
}

func TestWritesAfterLossAreReported(t *testing.T) {
	for name, row := range map[string]struct {
		line Line
		want string
	}{
		"the next line":                           {Line{"a1", "web-0", 4}, ""},
		"the next line was not answered":          {Line{"a1", "web-0", 5}, ""},
		"another member":                          {Line{"b2", "web-1", 1}, ""},
		"the volume has an older copy":            {Line{"a1", "web-0", 3}, "wrote line 3 twice"},
		"the volume is empty":                     {Line{"c3", "web-0", 1}, "writes to file c3, but file a1 has 3 acknowledged lines"},
		"the member has another member's volume":  {Line{"b2", "web-0", 9}, "writes to file b2"},
		"a second pod writes to a copy of a file": {Line{"a1", "web-0", 2}, "wrote line 2 twice"},
	} {
		l := ledger()
		l.Acknowledge(row.line, time.Now())
		expect(t, name, l, row.want)
	}
}

func TestMemberBeginsAgainAfterItsFileWasDrained(t *testing.T) {
	l := ledger()
	l.Drain("web-0", file("a1", "web-0", 3))
	l.Drain("web-0", file("a1", "web-0", 3)) // the cleanup pod ran twice
	if left := l.Members(); len(left) != 0 {
		t.Errorf("the ledger expects files of %v", left)
	}
	l.Acknowledge(Line{"c3", "web-0", 1}, time.Now())
	expect(t, "a new file after the cleanup", l, "")
	l.Acknowledge(Line{"d4", "web-0", 1}, time.Now())
	expect(t, "a third file without a cleanup", l, "writes to file d4, but file c3 has 1 acknowledged lines")

	l = ledger()
	l.Drain("web-0", file("a1", "web-0", 2))
	expect(t, "a cleanup of a file without its last line", l, "has 2 lines, but line 3 was acknowledged")

	l = ledger()
	l.Drain("web-0", file("a1", "web-0", 3))
	l.Acknowledge(Line{"a1", "web-0", 4}, time.Now())
	expect(t, "a scale-up that ended the cleanup", l, "")
}

func TestUnknownFileIsReported(t *testing.T) {
	l := ledger()
	l.CheckFile("web-7", file("z9", "web-7", 2))
	expect(t, "a file without acknowledgements", l, "the file of member web-7 has 2 lines, but none was acknowledged")
}

func TestLinesAreParsed(t *testing.T) {
	if line, err := ParseLine("a1 web-0 17"); err != nil || line != (Line{"a1", "web-0", 17}) {
		t.Errorf("%+v: %v", line, err)
	}
	for _, text := range []string{"", "a1", "a1 web-0", "a1 web-0 x", "a1 web-0 0", "a1 web-0 01", "a1  web-0 1", "a1 web-0 1 2"} {
		if line, err := ParseLine(text); err == nil {
			t.Errorf("%q is read as %+v", text, line)
		}
	}
}

func TestCollectorRecordsAndConfirms(t *testing.T) {
	l := NewLedger()
	c, err := Collect("127.0.0.1:0", l)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(text string) string {
		t.Helper()
		connection, err := net.Dial("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, text); err != nil {
			t.Fatal(err)
		}
		if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := bufio.NewReader(connection).ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		return answer
	}
	if answer := send(file("a1", "web-0", 3)); answer != "" || l.Count() != 3 {
		t.Errorf("the collector answered %q and has %d lines", answer, l.Count())
	}
	if answer := send(Drained + " web-0\n" + file("a1", "web-0", 3)); answer != "ok\n" {
		t.Errorf("the collector answered %q to a drained file", answer)
	}
	expect(t, "all lines arrived", l, "")
	send("rubbish\n")
	expect(t, "an unreadable line", l, `"rubbish" is not a line`)
}
