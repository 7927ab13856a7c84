package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/cmd/kubectl-drydock/logs"
	"drydock.dev/cmd/kubectl-drydock/report"
	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// reporting holds the state of kubectl drydock report.
type reporting struct {
	*tool
	file    string
	force   bool
	options logOptions
}

func newReport(t *tool) *cobra.Command {
	o := &reporting{tool: t}
	c := &cobra.Command{
		Use:   "report sts/NAME",
		Short: "Write a redacted archive for a bug report",
		Long: "Write a compressed archive with the facts about the StatefulSet and its latest operation: the set, its claims, volumes, pods,\n" +
			"Jobs and Events, the records of Drydock, its settings, and the lines of kubectl drydock logs.\n\n" +
			"Values that are not known to be harmless are replaced by (removed), for example those of environment variables, arguments\n" +
			"and labels of your own. README.txt in the archive lists what was removed. Read all files before you send the archive.\n" +
			"Nothing in the cluster is changed, and nothing is sent.",
		Example: "  kubectl drydock report sts/web\n  kubectl drydock report sts/web --file web.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	f := c.Flags()
	f.StringVar(&o.file, "file", "", "the archive to write, NAME.tar.gz; by default, its name has the set and the time")
	f.BoolVar(&o.force, "force", false, "replace an existing file")
	f.StringVar(&o.options.operation, "operation", "",
		"the id of the operation for the logs; by default the one that runs, or else the latest one")
	f.DurationVar(&o.options.since, "since", 0, "only log lines of this last time, for example 1h")
	f.StringVar(&o.options.home, "drydock-namespace", api.HomeNamespace, "the namespace of Drydock's functions")
	return c
}

// archiveSuffix is the end of the file's name.
const archiveSuffix = ".tar.gz"

func (o *reporting) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	if o.file == "" {
		o.file = fmt.Sprintf("drydock-report-%s-%s%s", s.name, o.now().UTC().Format("20060102-150405"), archiveSuffix)
	}
	if err := o.checkFile(); err != nil {
		return err
	}
	in, err := o.gather(ctx, s, argument)
	if err != nil {
		return err
	}
	files, err := report.Files(in)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := report.WriteArchive(&archive, strings.TrimSuffix(filepath.Base(o.file), archiveSuffix), o.now(), files); err != nil {
		return err
	}
	if err := o.write(archive.Bytes()); err != nil {
		return err
	}
	return o.print(in, files)
}

// checkFile returns an error if the file must not be written.
func (o *reporting) checkFile() error {
	if base := filepath.Base(o.file); !strings.HasSuffix(base, archiveSuffix) || base == archiveSuffix {
		return fmt.Errorf("--file %s does not end with %s. Write --file NAME%s", o.file, archiveSuffix, archiveSuffix)
	}
	_, err := os.Lstat(o.file)
	switch {
	case err == nil && !o.force:
		return fmt.Errorf("file %s exists. Name another one with --file, or add --force", o.file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking for an existing archive: %w", err)
	}
	return nil
}

// write writes the archive to a temporary file beside it, which only the user can read, and renames that file.
func (o *reporting) write(archive []byte) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(o.file), ".drydock-report-*")
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name()) // the first error is the cause
		}
	}()
	_, err = temporary.Write(archive)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := o.checkFile(); err != nil { // reading the facts took time
		return err
	}
	if err := os.Rename(temporary.Name(), o.file); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

func (o *reporting) print(in report.Input, files []report.File) error {
	size := 0
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(o.Out, "wrote %s:\n\n", o.file)
	fmt.Fprintln(table, "FILE\tBYTES\tCONTENTS")
	for _, f := range files {
		size += len(f.Content)
		fmt.Fprintf(table, "%s\t%d\t%s\n", f.Name, len(f.Content), f.About)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	missing := in.Missing
	if in.Logs != nil {
		missing = append(missing[:len(missing):len(missing)], in.Logs.Notes...)
	}
	for _, sentence := range missing {
		fmt.Fprintln(o.ErrOut, "missing: "+text.Printable(sentence))
	}
	_, err := fmt.Fprintf(o.Out, "\nRead the files before you send the archive: tar -xzf %s\n"+
		"Values that are not known to be harmless were removed, but names and messages are still there. README.txt has the details.\n", o.file)
	return err
}

// gather reads the facts of the report. A fact that cannot be read is missing. It returns an error if the set cannot be read.
func (o *reporting) gather(ctx context.Context, s *session, argument string) (report.Input, error) {
	o.options.quotesNoErrors = true
	in := report.Input{Now: o.now(), Namespace: s.namespace, Set: s.name}
	set, err := s.live(ctx)
	if err != nil {
		return in, err
	}
	in.Annotations = set.Annotations
	facts := &reportFacts{session: s, set: set}
	in.Groups = facts.groups(ctx)
	in.Server = facts.server(ctx)
	in.Settings = facts.settings(ctx, o.options.home)
	in.Status, err = o.document(ctx, newStatus, argument)
	facts.missed("the output of status", err)
	in.Doctor, err = o.document(ctx, newDoctor)
	facts.missed("the output of doctor", err)
	in.Missing = facts.missing
	scope, err := logs.NewScope(set, o.options.operation)
	switch {
	case err != nil && o.options.operation != "":
		return in, err
	case err != nil:
		in.Missing = append(in.Missing, "The set has no operation, so there are no logs.")
		return in, ctx.Err()
	}
	in.Logs, err = s.logsOf(ctx, scope, o.options, o.now())
	return in, err
}

// document runs another command with -o json and returns its output. An error after the output says only that there are problems.
func (o *reporting) document(ctx context.Context, command func(*tool) *cobra.Command, args ...string) (map[string]any, error) {
	var out bytes.Buffer
	inner := *o.tool
	inner.IOStreams = genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &bytes.Buffer{}}
	c := command(&inner)
	c.SetArgs(append(args, "-o", "json"))
	c.SilenceErrors, c.SilenceUsage = true, true
	failure := c.ExecuteContext(ctx)
	var document map[string]any
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		return nil, cmp.Or(failure, err)
	}
	return document, nil
}
