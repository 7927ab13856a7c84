// Command release makes everything that users of a release download. make release runs it (docs/release.md).
//
//	release [flags]           writes binaries, images, chart, manifests, lists and checksums to a new folder
//	release chart FOLDER      writes only the chart, without names of images
//
// It uses no network, and the same commit gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"drydock.dev/cmd/release/build"
	"drydock.dev/cmd/release/chart"
	"drydock.dev/shared/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "chart" {
		return writeChart(args[1])
	}
	r := release{programs: programs}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the version, for example v1.2.3")
	flags.StringVar(&r.root, "root", ".", "the folder of the module to build")
	flags.StringVar(&r.to, "to", "", "the folder to write, which must not exist")
	flags.StringVar(&r.registry, "registry", "registry.invalid", "the registry, with the path, to which you push the images")
	flags.StringVar(&r.baseURL, "base-url", "https://downloads.invalid", "the URL below which users download the files")
	flags.StringVar(&r.commit, "commit", "", "the commit")
	seconds := flags.Int64("time", 0, "the time of the commit in seconds since 1970, which all files get")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.time = time.Unix(*seconds, 0)
	if err := r.check(flags.Args()); err != nil {
		return err
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	fmt.Println("wrote", r.to)
	return nil
}

// check returns an error if the flags do not describe a release.
func (r release) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unknown arguments %q. Use only flags, or chart FOLDER", rest)
	case semver.Canonical(r.version) != r.version || r.version == "":
		return fmt.Errorf("--version %q is no version. Write it like v1.2.3 or v1.2.3-rc.1", r.version)
	case r.to == "" || r.commit == "" || r.time.Unix() <= 0:
		return errors.New("--to, --commit or --time is missing. Use make release VERSION=v1.2.3")
	}
	if err := r.checkPlaces(); err != nil {
		return err
	}
	if _, err := os.Stat(r.to); err == nil {
		return fmt.Errorf("%s exists. Remove it, so that it contains nothing of an older release", r.to)
	}
	return nil
}

// registryName is the grammar of the names of images (github.com/distribution/reference), without a tag and digest.
var registryName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*$`)

// checkPlaces returns an error if no user could get the images or files from where the release says that they are.
func (r release) checkPlaces() error {
	if !registryName.MatchString(r.registry) {
		return fmt.Errorf("--registry %q is no name of a registry. Write HOST or HOST/PATH, without a scheme, tag or final slash",
			r.registry)
	}
	if fault, _ := api.ImageFault(r.registry+"/"+functions+"@sha256:"+strings.Repeat("0", 64), false); fault != "" {
		return fmt.Errorf("--registry %s: image %s. Write the full name of the host", r.registry, fault)
	}
	base, err := url.Parse(r.baseURL)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.RawQuery+base.Fragment != "" {
		return fmt.Errorf("--base-url %q is no URL of a folder. Write it like https://example.com/v1.2.3", r.baseURL)
	}
	return nil
}

// writeChart writes the chart to the folder.
func writeChart(folder string) error {
	files, err := chart.Files(chart.Options{Version: "v0.0.0"})
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := writeFile(filepath.Join(folder, filepath.FromSlash(file.Name)), file.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file, and the folders above it.
func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}

// The programs of a release.
const (
	functions  = "drydock"            // and mover
	standalone = "drydock-standalone" // all functions in one process
	plugin     = "kubectl-drydock"
)

// commandPackage is the package of the plugin's commands.
const commandPackage = "drydock.dev/cmd/kubectl-drydock/command"

var (
	amd64Linux = build.Platform{OS: "linux", Arch: "amd64"}
	arm64Linux = build.Platform{OS: "linux", Arch: "arm64"}
)

// programs are the programs of a release with their platforms.
var programs = []build.Program{
	{Name: functions, Platforms: []build.Platform{amd64Linux, arm64Linux}},
	{Name: standalone, Platforms: []build.Platform{amd64Linux, arm64Linux}},
	{Name: plugin, Platforms: []build.Platform{
		amd64Linux,
		arm64Linux,
		{OS: "darwin", Arch: "amd64"},
		{OS: "darwin", Arch: "arm64"},
		{OS: "windows", Arch: "amd64"},
		{OS: "windows", Arch: "arm64"},
	}},
}

// descriptions are the descriptions of the images.
var descriptions = map[string]string{
	functions:  "The functions of Drydock on Knative, and the mover that copies volumes",
	standalone: "All functions of Drydock in one process",
}
