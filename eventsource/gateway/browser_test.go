//go:build page

package gateway

import (
	"bytes"
	"context"
	"image"
	"image/color"
	_ "image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/shared/api"
)

// browse runs headless Chromium, and returns the document and the log. Messages of the developer console, for example about a script
// that the policy blocked, are log lines with CONSOLE.
func browse(t *testing.T, flags ...string) (dom, log string) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium; make test-page installs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir()
	command := exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + home, "--enable-logging=stderr",
	}, flags...)...)
	command.Env = append(os.Environ(), "HOME="+home)
	command.WaitDelay = 5 * time.Second
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	if err := command.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, &errors)
	}
	return out.String(), errors.String()
}

func console(log string) string {
	var lines []string
	for line := range strings.SplitSeq(log, "\n") {
		if strings.Contains(line, "CONSOLE") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// site starts a proxy with Sablier's plugin in front of a backend. Like the plugin for Traefik, it forwards the body and its type, and
// no other header.
func site(t *testing.T, gateway http.Handler, query string, visited func(n int64)) string {
	t.Helper()
	var visits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visited(visits.Add(1))
		answer := httptest.NewRecorder()
		gateway.ServeHTTP(answer, httptest.NewRequestWithContext(r.Context(), http.MethodGet, pathDynamic+"?"+query, nil))
		if answer.Header().Get(statusHeader) == isReady {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><title>shop</title><link rel="icon" href="data:,"><p id="backend">open</p>`)
			return
		}
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// TestBrowserReachesSiteWithoutHelp: the browser opens the site, shows the page, reloads it, and finally shows the site.
func TestBrowserReachesSiteWithoutHelp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, set("web", asleep()))
	url := site(t, c.gateway(t, Options{}), "names=shop/web&refresh_frequency=1s&show_details=true", func(n int64) {
		switch at := with(api.AwakeUntilAnnotation, c.get("web").Annotations[api.AwakeUntilAnnotation]); n {
		case 2:
			c.put(set("web", sleep(api.Waking, ""), replicas(2, 1), at))
		case 3:
			c.put(set("web", sleep(api.Waking, ""), at))
		}
	})
	dom, log := browse(t, "--virtual-time-budget=20000", "--dump-dom", url)
	if !strings.Contains(dom, `<p id="backend">open</p>`) || strings.Contains(dom, "waking") {
		t.Errorf("the browser ended at\n%s", dom)
	}
	if told := console(log); told != "" {
		t.Error(told)
	}
}

func TestHostileTitleIsShownAsText(t *testing.T) {
	t.Parallel()
	c := newCluster(t, set("web", asleep(), sleep(api.Failed, hostile)))
	dom, log := browse(t, "--virtual-time-budget=500", "--dump-dom",
		site(t, c.gateway(t, Options{}), "names=shop/web&show_details=1&refresh_frequency=1m&display_name=%3Cscript%3Ealert(1)%3C/script%3E",
			func(int64) {}))
	if strings.Contains(dom, "<script") || strings.Contains(dom, "<img") ||
		!strings.Contains(dom, "<h1>&lt;script&gt;alert(1)&lt;/script&gt; has trouble") {
		t.Errorf("%s", dom)
	}
	if told := console(log); told != "" {
		t.Error(told)
	}
}

// TestPolicyBlocksScriptsInPage: the policy inside the page blocks a script even if escaping failed.
func TestPolicyBlocksScriptsInPage(t *testing.T) {
	t.Parallel()
	page := strings.Replace(string(render(Query{Title: "Shop", Refresh: time.Minute}, Session{}, viewWaking)), "</main>",
		`<script>document.body.id = "broken"</script><img src="/spy"><style>h1 { color: red }</style></main>`, 1)
	spied := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spied = spied || r.URL.Path == "/spy"
		w.Header().Set("Content-Type", pageKind)
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(server.Close)
	dom, log := browse(t, "--virtual-time-budget=500", "--dump-dom", server.URL)
	if strings.Contains(dom, `id="broken"`) || spied {
		t.Errorf("spied=%t\n%s", spied, dom)
	}
	if n := strings.Count(console(log), "Content Security Policy"); n != 3 {
		t.Errorf("the log reports %d of 3 breaches:\n%s", n, log)
	}
}

// TestPictureOfPage takes screenshots in light and dark mode. If DRYDOCK_TEST_PICTURES names a folder, the pictures are kept there for
// a review.
func TestPictureOfPage(t *testing.T) {
	t.Parallel()
	folder, names := os.Getenv("DRYDOCK_TEST_PICTURES"), []string{"waking", "failed", "paused"}
	if folder == "" {
		folder, names = t.TempDir(), names[:1] // the others differ in words and colours: they are for people
	}
	group := labelled(api.GroupLabel, "shop")
	rest := []func() *cluster{
		func() *cluster {
			return newCluster(t, set("cache", group), set("database", group, sleep(api.Waking, ""), replicas(3, 1)), set("web", group, asleep()))
		},
		func() *cluster {
			return newCluster(t, set("cache", group), set("database", group, pausedSet),
				set("web", group, sleep(api.Failed, "nothing became ready within 30m0s; see its pods"), replicas(2, 0)))
		},
		func() *cluster { return newCluster(t, set("web", group, pausedSet)) },
	}
	for i, name := range names {
		url := site(t, rest[i]().gateway(t, Options{}), "group=shop/shop&refresh_frequency=1m&show_details=true&display_name=The+shop",
			func(int64) {})
		for scheme, flag := range map[string]string{"light": "1", "dark": "0"} {
			file := filepath.Join(folder, name+"-"+scheme+".png")
			_, log := browse(t, "--blink-settings=preferredColorScheme="+flag, "--window-size=900,700", "--hide-scrollbars", "--screenshot="+file,
				url)
			if told := console(log); told != "" {
				t.Error(told)
			}
			checkPicture(t, file, scheme == "dark")
		}
	}
}

// checkPicture checks that the picture shows a page on a background of the right brightness.
func checkPicture(t *testing.T, file string, dark bool) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	picture, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	colours, size := map[color.Color]int{}, picture.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y += 3 {
		for x := size.Min.X; x < size.Max.X; x += 3 {
			colours[picture.At(x, y)]++
		}
	}
	ground := color.GrayModel.Convert(picture.At(2, 2)).(color.Gray).Y
	if len(colours) < 8 || dark != (ground < 100) {
		t.Errorf("%s: %d colours on a ground of %d", file, len(colours), ground)
	}
}
