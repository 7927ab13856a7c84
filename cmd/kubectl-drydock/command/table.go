package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/text"
)

// printLetters prints a line for each letter. Other users can write the texts, so it removes control characters.
func printLetters(out io.Writer, letters []api.UndeliveredEvent, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tAGE\tEVENT\tOBJECT\tREJECTED BY\tCODE\tWHY")
	for _, l := range letters {
		code, why := "none", l.Message
		if l.Code != 0 {
			code = fmt.Sprint(l.Code)
		}
		if l.Resent != nil {
			why = strings.TrimSpace(fmt.Sprintf("%s (sent again %s ago)", why, progress.Age(now.Sub(l.Resent.Time))))
		}
		name := strings.TrimPrefix(strings.TrimPrefix(l.Type, ownPrefix), sourcePrefix)
		fmt.Fprintln(table, strings.Join([]string{l.Key(), progress.Age(now.Sub(l.Time.Time)), text.Printable(name),
			text.Printable(kindAndName(l.Subject)), text.Printable(functionName(l.Destination)), code, text.Printable(why)}, "\t"))
	}
	return table.Flush()
}

// outputFlag is the value of the flag -o: one of the formats, or empty.
type outputFlag struct {
	to      *string
	formats []string
}

// addOutput adds the flag -o to the flags.
func addOutput(flags *pflag.FlagSet, to *string, usage string, formats ...string) {
	flags.VarP(outputFlag{to, formats}, "output", "o", usage)
}

func (f outputFlag) String() string {
	if f.to == nil { // pflag asks a zero value
		return ""
	}
	return *f.to
}

func (f outputFlag) Type() string { return "string" }

func (f outputFlag) Set(format string) error {
	if format != "" && !slices.Contains(f.formats, format) {
		return fmt.Errorf("use one of: %s", strings.Join(f.formats, ", "))
	}
	*f.to = format
	return nil
}

// printAs prints the document as json or yaml. Users can write any character into it.
func printAs(out io.Writer, document any, format string) error {
	content, err := json.MarshalIndent(document, "", "    ")
	if err != nil {
		return err
	}
	content = append(text.EscapeJSON(content), '\n')
	if format == "yaml" {
		if content, err = yaml.JSONToYAML(content); err != nil {
			return err
		}
	}
	_, err = out.Write(content)
	return err
}

// causeOf returns the reason and the message of an operation.
func causeOf(head *api.Header) string {
	return text.Printable(fmt.Sprintf("%s: %s", head.Reason, head.Message))
}

// printable returns the character, or a space in place of one that does not print. Other than text.Printable it keeps every space, because
// the branches of a tree consist of them.
func printable(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// kindAndName returns the last two parts of an object's path.
func kindAndName(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// functionName returns the first label of a URL's host, which is the name of the function.
func functionName(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, ".")
	return name
}

// counted returns the number with the noun, which gets an s unless the number is 1.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are returns the verb for a number of things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
