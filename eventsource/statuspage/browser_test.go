//go:build page

package statuspage

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
)

// site serves the cluster's status page. It returns the address with the token as password, which a user types into the browser.
func site(t *testing.T, c *cluster) string {
	t.Helper()
	p := c.page(t)
	p.live.pause = 200 * time.Millisecond
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Stop() // the server waits for its streams
		server.Close()
	})
	return strings.Replace(server.URL, "http://", "http://viewer:"+url.PathEscape(secret)+"@", 1)
}

// fleet returns set web, whose resize runs, and many other sets.
func fleet(n int) build.Lists {
	objects := resizing(1 << 30)
	failed := build.Operation(api.Failed)
	failed.Set.Name, failed.Set.UID = "orders", "uid-orders"
	failed.Reason, failed.Message = "CopyFailed", "claim data-orders-0 cannot be read. Repair its file system, then retry."
	sets := []metav1.Object{asleep("nightly"), asleep("preview"), build.Set("orders", build.Resize(failed.Request), build.Status(failed)),
		build.Set("cache", build.InGroup("shop"), build.IdleTimeout("1h"), build.LastActivity(time.Minute)),
		build.Set("database", build.InGroup("shop"), build.IdleTimeout("1h"), build.LastActivity(9*time.Minute)),
		build.Set("search", build.Annotation(api.KeepWarmAnnotation, "Mon-Sun 00:00-23:59 UTC"), build.IdleTimeout("15m")),
		build.Set("mail", build.IdleTimeout("1h"), build.AwakeFor(2*time.Hour))}
	for i := range n {
		sets = append(sets, build.Set("shard-"+strconv.Itoa(i), build.Replicas(3)))
	}
	objects["statefulsets"] = append(objects["statefulsets"], sets...)
	return objects
}

// TestResizeMovesLive: the page shows each step of a resize without a reload, and keeps the focus.
func TestResizeMovesLive(t *testing.T) {
	c := newCluster(t, resizing(0))
	b := newBrowser(t, 1200, 900)
	b.open(site(t, c) + "/sets/" + build.Namespace + "/web")
	b.until(`document.getElementById("live").textContent === "Live"`)
	b.tabTo("back")
	b.eval(`window.same = true`)
	for _, copied := range []int64{1 << 30, 2 << 30, 3 << 30} {
		c.put(resizing(copied))
		b.until(fmt.Sprintf(`document.querySelectorAll("progress")[1].value === %d`, copied*100/(3<<30)))
	}
	done := resizing(3 << 30)
	record := moving(3 << 30)
	record.Phase, record.Message = api.Succeeded, "3 claims are on new volumes"
	done["statefulsets"] = []metav1.Object{build.Set("web", build.Replicas(3), build.Status(record))}
	c.put(done)
	b.until(`document.querySelector("#main .tag.good + b")?.textContent.startsWith("resize")`)
	if b.eval(`window.same`) != "true" || b.focused() != "back" {
		t.Errorf("the page was loaded again, or has lost the focus: %s", b.focused())
	}
	if said := b.eval(`document.getElementById("said").textContent`); !strings.Contains(said, "is Succeeded") {
		t.Errorf("a screen reader says %q", said)
	}
	c.fail.Store(true)
	b.until(`document.getElementById("live").textContent.startsWith("Not up to date")`)
	if !strings.Contains(b.eval(`document.getElementById("main").textContent`), "Succeeded") {
		t.Error("the page does not keep the last state")
	}
	b.quiet()
}

// connection drops everything after the moment when the network fails, and says nothing.
type connection struct {
	http.ResponseWriter
	fails *atomic.Bool
	dead  bool
}

func (c *connection) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *connection) Write(text []byte) (int, error) {
	if c.dead = c.dead || c.fails.Load(); c.dead {
		return len(text), nil
	}
	return c.ResponseWriter.Write(text)
}

// TestSilentConnectionDoesNotPassForLive: a connection may end without a sign, for example when a laptop has slept or a firewall has
// forgotten it. Neither then nor in a hidden tab, which has no connection, the page may say that it is up to date.
func TestSilentConnectionDoesNotPassForLive(t *testing.T) {
	p, fails := newCluster(t, resizing(0)).page(t), &atomic.Bool{}
	p.live.heartbeat = 100 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.ServeHTTP(&connection{ResponseWriter: w, fails: fails}, r)
	}))
	t.Cleanup(func() {
		p.Stop()
		server.Close()
	})
	b := newBrowser(t, 1200, 900)
	// The page's time goes 50 times as fast.
	b.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		const wait = window.setTimeout;
		window.setTimeout = (f, time) => wait(f, time / 50);
		window.hide = (hidden) => {
			Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
			document.dispatchEvent(new Event("visibilitychange"));
		};`})
	b.open(strings.Replace(server.URL, "http://", "http://viewer:"+url.PathEscape(secret)+"@", 1) + "/")
	const live, stale = `document.getElementById("live").textContent === "Live"`,
		`document.getElementById("live").textContent.startsWith("Not up to date")`
	b.until(live)
	fails.Store(true)
	b.until(stale)
	fails.Store(false)
	b.until(live)
	b.eval(`hide(true)`)
	b.until(stale)
	b.eval(`hide(false)`)
	b.until(live)
	b.quiet()
}

// TestKeyboardAloneReachesEverything: skip link, search, filters, pages, a set and back.
func TestKeyboardAloneReachesEverything(t *testing.T) {
	c := newCluster(t, fleet(500))
	b := newBrowser(t, 1200, 900)
	b.open(site(t, c) + "/")
	b.until(`document.getElementById("live").textContent === "Live"`)
	b.press("Tab")
	if b.focused() != "Skip to the content" {
		t.Errorf("the first stop is %q, want the skip link", b.focused())
	}
	b.press("Enter")
	b.tabTo("tab-active")
	if outline := b.eval(`getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is not visible: outline %s", outline)
	}
	b.press("Enter")
	b.until(`location.search === "?show=active" && document.querySelectorAll("tbody tr").length === 1`)
	b.tabTo("set-" + build.Namespace + "/web")
	b.press("Enter")
	b.until(`location.pathname.endsWith("/web") && document.querySelector("ol.steps") !== null`)
	b.tabTo("back")
	b.press("Enter")
	b.until(`location.pathname === "/" && document.querySelectorAll("tbody tr").length === 100`)
	b.tabTo("next")
	b.press("Enter")
	b.until(`location.search === "?page=2"`)
	b.tabTo("q")
	b.press("s", "h", "a", "r", "d", "-", "4", "9", "9", "Enter")
	b.until(`document.querySelectorAll("tbody tr").length === 1`)
	b.quiet()
}

// TestBrowserShowsHostileTextAsText: a message of a tenant runs no script, in the first page and in later fragments.
func TestBrowserShowsHostileTextAsText(t *testing.T) {
	record := build.Operation(api.Failed, build.Members(api.MemberKept, "data-web-0"))
	record.Message = hostile()
	objects := build.Lists{"statefulsets": {build.Set("web", build.Status(record))}}
	c := newCluster(t, objects)
	b := newBrowser(t, 900, 700)
	address := site(t, c)
	for _, path := range []string{"/", "/sets/" + build.Namespace + "/web"} {
		b.open(address + path)
		b.until(`document.getElementById("live").textContent === "Live"`)
		if b.eval(`document.body.id + document.querySelectorAll("img, main script").length`) != "0" {
			t.Errorf("%s: %s", path, b.eval(`document.body.outerHTML`))
		}
	}
	b.quiet()
}

// TestPicturesOfThePage takes pictures in light and dark mode. With -update, those of the README are written.
func TestPicturesOfThePage(t *testing.T) {
	c := newCluster(t, fleet(2))
	address := site(t, c)
	folder := os.Getenv("DRYDOCK_TEST_PICTURES")
	if folder == "" {
		folder = t.TempDir()
	}
	for name, page := range map[string]struct {
		path, scheme string
		width        int
		height       int
	}{
		"list-light": {"/", "light", 1200, 1010}, "list-dark": {"/", "dark", 1200, 1010}, "phone-light": {"/", "light", 400, 900},
		"light":      {"/sets/" + build.Namespace + "/web", "light", 1200, 1560},
		"dark":       {"/sets/" + build.Namespace + "/web", "dark", 1200, 1560},
		"phone-dark": {"/sets/" + build.Namespace + "/web", "dark", 400, 900},
	} {
		b := newBrowser(t, page.width, page.height)
		b.scheme(page.scheme)
		b.open(address + page.path)
		b.until(`document.getElementById("live").textContent === "Live"`)
		if wide := b.eval(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
			t.Errorf("%s: the page is wider than the window", name)
		}
		picture := b.picture()
		checkPicture(t, name, picture, page.scheme == "dark")
		files := []string{filepath.Join(folder, name+".png")}
		if golden.Updating() && (name == "light" || name == "list-dark") {
			files = append(files, filepath.Join(kit.Root(t), "docs", "images", "status-page-"+page.scheme+".png"))
		}
		for _, file := range files {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b.quiet()
	}
}

// checkPicture checks that the picture shows a page on a background of the right brightness.
func checkPicture(t *testing.T, name string, raw []byte, dark bool) {
	t.Helper()
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
	ground := color.GrayModel.Convert(picture.At(2, size.Max.Y-3)).(color.Gray).Y
	if len(colours) < 8 || dark != (ground < 100) {
		t.Errorf("%s: %d colours on a ground of %d", name, len(colours), ground)
	}
}
