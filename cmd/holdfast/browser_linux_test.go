//go:build !holdfast_lean

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A browser is a headless Chromium with one page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // errors in its console, and violations of the page's policy
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal(`this test needs chromium, which is not installed: run "make servers"`)
	}
	dir, err := os.MkdirTemp("", "holdfast-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(patience), chromedp.Flag("lang", "en"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root cannot have the sandbox
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, leave := chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page shows:\n%s", evaluate[string](b, `document.body.innerText`))
		}
		leave()
		stop()
		for end := time.Now().Add(patience); os.RemoveAll(dir) != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		} // processes of the browser may write for a moment
	})
	if err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.wrong = append(b.wrong, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if !strings.HasSuffix(e.Entry.URL, "/break") { // a refused break, which the test expects
				b.wrong = append(b.wrong, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// do runs the actions one after the other.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, a := range actions {
		if _, err := chromedp.Run(ctx, a); err != nil {
			b.t.Fatal(err)
		}
	}
}

// evaluate is the value of the expression in the page's JavaScript.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Errorf("%s: %v", expression, err)
	}
	return v
}

// until waits until the expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !evaluate[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if b.t.Failed() || time.Now().After(end) {
			b.t.Fatalf("not true on the page: %s", expression)
		}
	}
}

// shows waits until the page shows the text; hidden text does not count.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// types presses keys, as a user without a mouse does.
func (b *browser) types(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// clicks clicks the element once it is there, and wherever it is: a mouse that is moved to it can find it elsewhere by then.
func (b *browser) clicks(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(e => e !== null && (e.click(), true))(document.querySelector(%q))", selector))
}

// looks sets the size of the window, and light or dark mode.
func (b *browser) looks(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
}

// nothingWrong checks that the browser reported no errors.
func (b *browser) nothingWrong() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		b.t.Errorf("the browser reports: %s", strings.Join(b.wrong, "; "))
	}
}
