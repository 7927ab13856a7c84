// Package manual makes the man pages and the completion of kubectl drydock.
package manual

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/cmd/kubectl-drydock/command"
	"drydock.dev/cmd/release/pack"
)

// pluginCompletion is the program that kubectl asks for the completion of kubectl drydock.
const pluginCompletion = "#!/bin/sh\nexec kubectl-drydock __complete \"$@\"\n"

// Files returns the man pages below man/, and the completion of each shell below completion/.
func Files(version string, at time.Time) ([]pack.File, error) {
	root := command.New(genericiooptions.NewTestIOStreamsDiscard())
	root.DisableAutoGenTag = true
	if cache := root.PersistentFlags().Lookup("cache-dir"); cache != nil {
		cache.DefValue = "$HOME/.kube/cache" // the real default names the user of this machine
	}
	pages, err := manPages(root, version, at)
	if err != nil {
		return nil, fmt.Errorf("making the man pages: %w", err)
	}
	completion, err := completion(root)
	if err != nil {
		return nil, fmt.Errorf("making the completion: %w", err)
	}
	return append(pages, completion...), nil
}

func manPages(root *cobra.Command, version string, at time.Time) ([]pack.File, error) {
	folder, err := os.MkdirTemp("", "man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	at = at.UTC()
	header := &doc.GenManHeader{Section: "1", Date: &at, Source: "Drydock " + version, Manual: "kubectl drydock"}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		return nil, err
	}
	var files []pack.File
	for _, name := range names {
		file, err := pack.Read(name, "man/"+filepath.Base(name), pack.Plain)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func completion(root *cobra.Command) ([]pack.File, error) {
	files := []pack.File{{Name: "completion/kubectl_complete-drydock", Mode: pack.Executable, Content: []byte(pluginCompletion)}}
	for name, write := range map[string]func(io.Writer) error{
		"kubectl-drydock.bash": func(to io.Writer) error { return root.GenBashCompletionV2(to, true) },
		"_kubectl-drydock":     root.GenZshCompletion,
		"kubectl-drydock.fish": func(to io.Writer) error { return root.GenFishCompletion(to, true) },
		"kubectl-drydock.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return nil, err
		}
		files = append(files, pack.File{Name: "completion/" + name, Mode: pack.Plain, Content: text.Bytes()})
	}
	return files, nil
}
