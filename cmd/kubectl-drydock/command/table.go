package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
)

// printLetters prints a line a letter. Their texts are of others, so they are made fit for a terminal.
func printLetters(out io.Writer, letters []api.Letter, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tAGE\tEVENT\tOBJECT\tNOT TAKEN BY\tCODE\tWHY")
	for _, l := range letters {
		code, why := "none", l.Message
		if l.Code != 0 {
			code = fmt.Sprint(l.Code)
		}
		if l.Resent != nil {
			why = strings.TrimSpace(fmt.Sprintf("%s (sent again %s ago)", why, duration.HumanDuration(now.Sub(l.Resent.Time))))
		}
		name := strings.TrimPrefix(strings.TrimPrefix(l.Type, ownPrefix), sourcePrefix)
		fmt.Fprintln(table, strings.Join([]string{l.Key(), duration.HumanDuration(now.Sub(l.Time.Time)), printable(name),
			printable(short(l.Subject)), printable(host(l.Destination)), code, printable(why)}, "\t"))
	}
	return table.Flush()
}

// printAs prints something as json or yaml.
func printAs(out io.Writer, what any, format string) error {
	text, err := json.MarshalIndent(what, "", "    ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

// short is the last part of an object's path: kind and name.
func short(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// host is the first word of a URL's host: the name of the function.
func host(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, ".")
	return name
}
