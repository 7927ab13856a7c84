package report

import (
	"fmt"
	"strings"
	"time"

	"drydock.dev/cmd/kubectl-drydock/redact"
	"drydock.dev/shared/text"
)

// removedText lists the parts that a report leaves out.
const removedText = `What was removed
  Values that are not known to be harmless are replaced by ` + redact.Removed + `, and their keys stay:
  - the values of environment variables, commands, arguments and probes of containers
  - the values of all labels and annotations, except those of Drydock and Kubernetes
  - the names of image pull secrets, the sources of volumes except claims, and the attributes of CSI volumes
  - the annotations drydock.dev/activity-probe and drydock.dev/member-check, and the URLs of hooks
  - in messages, records and logs: these commands, arguments, probes and URLs, if they are quoted in full and have four characters or more
  - the output of hooks and cleanup pods, also in messages that quote it
  - the texts of errors of this command, and in messages: the values of labels that a request names, and values that the API server rejected
  - settings that are not Drydock's
  - credentials in texts: users and queries of URLs, bearer tokens, values with names such as password, long random words
  managedFields and kubectl's last-applied-configuration are left out. Secrets were not read, and of ConfigMaps only drydock-settings.

The rest
  Names of objects, namespaces, nodes, images and mount paths. The text of requests. The messages of Drydock and Kubernetes, which can
  contain names of files on the volumes. A credential that stands alone in such a text cannot be recognized.
  Read all files before you send the archive.
`

// readme returns the file that lists the others.
func readme(in Input, files []File) File {
	var b strings.Builder
	fmt.Fprintf(&b, "Report of kubectl drydock about StatefulSet %s/%s, %s\n\nContents\n", in.Namespace, in.Set,
		in.Now.UTC().Format(time.RFC3339))
	for _, f := range files {
		fmt.Fprintf(&b, "  %-14s %s\n", f.Name, f.About)
	}
	fmt.Fprintf(&b, "\n%s", removedText)
	missing := in.Missing
	if in.Logs != nil {
		missing = append(missing[:len(missing):len(missing)], in.Logs.Notes...)
	}
	if len(missing) > 0 {
		b.WriteString("\nMissing\n")
	}
	for _, sentence := range missing {
		fmt.Fprintf(&b, "  - %s\n", redact.Message(text.Printable(sentence)))
	}
	return File{ReadmeFile, "the contents, and what was removed", []byte(b.String())}
}
