//go:build page

package statuspage

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium that a test controls over a pipe, with the DevTools protocol.
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	session string

	mu      sync.Mutex
	next    int
	answers map[int]chan response
	console []string // messages of the developer console, for example about a script that the policy blocked
}

// response is an answer to a command, or an event.
type response struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// newBrowser starts a browser with one empty page of this size.
func newBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium; make test-page installs it")
	}
	home := t.TempDir()
	command := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+home, fmt.Sprintf("--window-size=%d,%d", width, height), "--remote-debugging-pipe")
	command.Env = append(os.Environ(), "HOME="+home)
	read, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.ExtraFiles = []*os.File{read, write} // Chromium reads file 3 and writes file 4
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = read.Close(), write.Close()
	b := &browser{t: t, in: commands, answers: map[int]chan response{}}
	go b.receive(answers)
	t.Cleanup(func() {
		_ = commands.Close() // ends the browser
		time.AfterFunc(5*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
	})
	b.attach()
	return b
}

// receive passes answers to their commands until the browser ends. A NUL ends each message.
func (b *browser) receive(from io.Reader) {
	messages := bufio.NewReader(from)
	for {
		text, err := messages.ReadBytes(0)
		if err != nil {
			return
		}
		var r response
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.answers[r.ID]; answer != nil {
			answer <- r
			delete(b.answers, r.ID)
		}
		if r.Method == "Log.entryAdded" || r.Method == "Runtime.exceptionThrown" || r.Method == "Runtime.consoleAPICalled" {
			b.console = append(b.console, string(r.Params))
		}
		b.mu.Unlock()
	}
}

// do sends a command and returns its result.
func (b *browser) do(method string, params any) json.RawMessage {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	id, answer := b.next, make(chan response, 1)
	b.answers[id] = answer
	b.mu.Unlock()
	command := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		return r.Result
	case <-time.After(2 * time.Minute): // the machine may be busy
		b.t.Fatalf("%s: no answer", method)
	}
	return nil
}

func (b *browser) attach() {
	b.t.Helper()
	var target struct{ TargetID, SessionID string }
	if err := json.Unmarshal(b.do("Target.createTarget", map[string]any{"url": "about:blank"}), &target); err != nil {
		b.t.Fatal(err)
	}
	result := b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	if err := json.Unmarshal(result, &target); err != nil {
		b.t.Fatal(err)
	}
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", map[string]any{})
	}
}

// open shows the address.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": url})
	b.until(`document.readyState === "complete"`)
}

// eval returns the result of the JavaScript as text. The page's policy does not limit it.
func (b *browser) eval(script string) string {
	b.t.Helper()
	var result struct {
		Result struct{ Value any }
	}
	raw := b.do("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true})
	if err := json.Unmarshal(raw, &result); err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(result.Result.Value)
}

// until waits until the JavaScript is true.
func (b *browser) until(script string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if b.eval(script) == "true" {
			return
		}
	}
	b.t.Fatalf("never true: %s\nThe page: %.2000s", script, b.eval("document.body.innerText"))
}

// press presses keys, as a user without a mouse does. Of a key with more than one character it is the name.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13}
	for _, key := range keys {
		event := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			event["text"] = "\r"
		case len(key) == 1:
			event["text"] = key
		}
		b.do("Input.dispatchKeyEvent", event)
		b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]})
	}
}

// focused returns the id of the focused element, or its text.
func (b *browser) focused() string {
	b.t.Helper()
	return b.eval(`document.activeElement.id || document.activeElement.textContent.trim()`)
}

// tabTo presses Tab until the element with the id has the focus.
func (b *browser) tabTo(id string) {
	b.t.Helper()
	for range 400 {
		if b.press("Tab"); b.focused() == id {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", id)
}

// scheme selects the colours that the user prefers: light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}})
}

// picture returns a picture of the visible page, as PNG.
func (b *browser) picture() []byte {
	b.t.Helper()
	var result struct{ Data []byte }
	if err := json.Unmarshal(b.do("Page.captureScreenshot", map[string]any{"format": "png"}), &result); err != nil {
		b.t.Fatal(err)
	}
	return result.Data
}

// quiet fails the test if the developer console has messages.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		b.t.Error(line)
	}
}
