//go:build !holdfast_lean

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// The page in a real browser, on a real store: its content, its updates, and a break with the keyboard only.
func TestUIInABrowser(t *testing.T) {
	t.Parallel()
	b, locks := newBrowser(t), fileStore(t)
	address := startUI(t, locks, "--allow-break")
	b.looks(1280, 900, "light")
	b.do(chromedp.Navigate(address))
	b.shows("no lock is in use")
	b.shows("Nothing, in the")

	holder := beginNamed(t, locks, "nightly", "--ttl", "20", "--note", "ask Anna", "--", "sleep", "1000")
	b.shows("ask Anna")
	for _, note := range []string{"first of two", "second of two"} { // one behind the other
		beginNamed(t, locks, "nightly", "--note", note, "--", "true")
		b.shows(note)
	}
	if notes := evaluate[[]string](b, `[...document.querySelectorAll("ol .note")].map(e => e.textContent)`); !slices.Equal(notes, []string{"first of two", "second of two"}) {
		t.Errorf("got queue %q", notes)
	}
	b.shows("2 wait")

	// Ages and expiries are updated, and the time to expiry grows again when the hold is renewed.
	for _, what := range []string{"for ", "expires in "} {
		text := `[...document.querySelectorAll("ul ul .moving")].map(e => e.textContent).find(s => s.startsWith("` + what + `"))`
		first := evaluate[string](b, text)
		b.until(text + ` !== "` + first + `"`)
	}
	b.until(`(p => (window.low ??= p.value, window.low = Math.min(window.low, p.value), p.value > window.low + 2000))(document.querySelector("progress"))`)

	// Names and notes from the store are text, and cannot change the direction of the text around them.
	hostile := "<img src=x onerror=\"document.title='taken'\">\u202egpj.exe"
	bad := beginNamed(t, locks, hostile, "--note", "</script><script>document.title='taken'</script>\u202e\x1b[2J", "--", "sleep", "1000")
	b.shows(`onerror=\"document.title='taken'\">\u202egpj.exe`)
	if evaluate[int](b, `document.querySelectorAll("img, script:not([src])").length`) != 0 || evaluate[string](b, `document.title`) != "holdfast" {
		t.Error("a name was inserted as HTML")
	}
	if evaluate[bool](b, `/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent.replaceAll("\t", ""))`) {
		t.Error("the page shows a control character")
	}
	bad.signal(bad.front(), 15)
	b.until(`!document.body.innerText.includes("gpj.exe")`)

	// Nothing is loaded from other hosts, and the token is not in the address any more. The page can be reloaded.
	if href := evaluate[string](b, `location.href`); strings.Contains(href, "token") {
		t.Error(href)
	}
	if foreign := evaluate[[]string](b, `performance.getEntriesByType("resource").map(e => e.name).filter(n => new URL(n).origin !== location.origin)`); len(foreign) > 0 {
		t.Errorf("%q", foreign)
	}
	b.do(chromedp.Reload())
	b.shows("ask Anna")

	// The filter.
	b.do(chromedp.Focus("#filter"))
	b.types("nobody of that name")
	b.until(`document.querySelectorAll("#names > li").length === 0`)
	b.shows("0 shown")
	b.types(strings.Repeat(kb.Backspace, len("nobody of that name")))
	b.shows("ask Anna")

	// Tab goes through the whole page and out of it; Escape leaves the dialog.
	b.do(chromedp.Focus("#filter"))
	var stops []string
	for range 20 {
		b.types(kb.Tab)
		stops = append(stops, evaluate[string](b, `document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.localName`))
		if last := stops[len(stops)-1]; last == "body" || last == "filter" {
			break
		}
	}
	if last := stops[len(stops)-1]; last != "body" && last != "filter" || !slices.Contains(stops, "sort") || !slices.Contains(stops, "summary") {
		t.Errorf("Tab moves through %q", stops)
	}
	ask := func() {
		t.Helper()
		b.do(chromedp.Focus(".entry button"))
		b.types(kb.Enter)
		b.until(`document.activeElement.id === "reason"`)
	}
	ask()
	b.types(kb.Escape)
	b.until(`!document.querySelector("dialog").open && document.activeElement.textContent === "Break…"`)

	// A break: a reason, then yes.
	ask()
	b.types(kb.Enter)
	b.shows("A reason is needed.")
	b.types("web-3 goes" + kb.Enter)
	b.until(`document.activeElement.id === "yes"`)
	b.types("no" + kb.Enter)
	b.shows("not broken: the answer was not yes")
	if holder.over() {
		t.Error("the hold was broken after a no")
	}
	// An error can be corrected, such as a reason that is too long together with the name of who breaks it.
	b.until(`document.querySelector("dialog").open && document.activeElement.id === "reason"`)
	evaluate[string](b, `document.activeElement.value = "x".repeat(199)`)
	b.types(kb.Enter)
	b.until(`document.activeElement.id === "yes"`)
	b.types("yes" + kb.Enter)
	b.shows("at most 200 are kept")
	b.until(`document.activeElement.id === "reason"`)
	evaluate[string](b, `document.activeElement.value = ""`)
	b.types("web-3 goes" + kb.Enter)
	b.until(`document.activeElement.id === "yes"`)
	b.types("yes" + kb.Enter)
	b.shows("nightly: broken")
	holder.exits(exitLost)
	b.until(`[...document.querySelectorAll("#lost > li")].some(e => /nightly[^]*broken by .*web-3 goes[^]*ago/.test(e.innerText))`)
	b.nothingWrong()
}

// newUIPage opens the page on fixed states, without a store. again makes the page read them once more.
func newUIPage(t *testing.T, b *browser) (again func()) {
	t.Helper()
	minutes := func(e store.Entry, age, left time.Duration) store.Entry {
		e.Age, e.Expires, e.Ends = age, left, left
		return e
	}
	import1 := minutes(entryOf(1, 1795859012000001, "db-1", "ask Anna"), 42*time.Minute, 24*time.Second)
	deploy := minutes(entryOf(2, 1795861120000002, "web-1", "release 4.2"), 95*time.Second, 21*time.Second)
	slot := minutes(entryOf(3, 1795861120000003, "web-2", ""), 12*time.Second, 28*time.Second)
	gone := minutes(entryOf(9, 1795858000000009, "web-3", "report of the month"), 9*time.Minute, 12*time.Second)
	slot.Weight = 1
	slots := store.State{Name: "thumbnails", Limit: 3, Entries: []store.Entry{slot}}
	states := []store.State{
		stateWith("deploy", deploy, minutes(entryOf(4, 0, "web-4", "hotfix"), 0, 8*time.Second), minutes(entryOf(5, 0, "web-5", ""), 0, 9*time.Second)),
		stateWith("nightly/import", import1), slots,
		stateWith("\u202eevil\x1b[2J", minutes(entryOf(6, 1795861130000006, "lab-7", "<b>not bold</b>"), time.Hour, 25*time.Second)),
	}
	x := newUITest(t, true)
	read := func(states ...store.State) {
		r := readingOf(states...)
		r.where = "PostgreSQL at db.internal:5432, table holdfast"
		x.reads(r)
	}
	read(stateWith("report", gone))
	gone.Broken = "alice@web-1: web-3 is being replaced"
	read(append(states, stateWith("report", gone))...)
	read(states...)
	x.opens(b, "#token=SECRET")
	again = func() {
		t.Helper()
		x.keepsReading(b, func() { read(states...) }, `[...document.querySelectorAll(".moving")].some(e => e.textContent === "expires in 2" + e.textContent.slice(-2))`)
	}
	again()
	return again
}

// keepsReading reads until the page shows what only a new read has. The page asks once a second, and a page that the
// machine has delayed for longer than a read counts as new shows old data.
func (x *uiTest) keepsReading(b *browser, read func(), expression string) {
	x.Helper()
	for end := time.Now().Add(patience); ; {
		read()
		for soon := time.Now().Add(time.Second); time.Now().Before(soon); time.Sleep(20 * time.Millisecond) {
			if evaluate[bool](b, expression) {
				return
			}
		}
		if b.t.Failed() || time.Now().After(end) {
			x.Fatalf("not true on the page: %s", expression)
		}
	}
}

// opens opens the page in the browser, with this after its address.
func (x *uiTest) opens(b *browser, behind string) {
	x.Helper()
	server := httptest.NewServer(x.handler)
	x.Cleanup(server.Close)
	b.do(chromedp.Navigate(server.URL + "/" + behind))
}

// If an address is pasted into a tab that shows the page, only the part after the # changes.
func TestUITakesANewTokenInAnOpenTab(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, false, threeNames()...)
	x.opens(b, "#token=OLD")
	b.shows("the token is missing or wrong")
	evaluate[string](b, `location.hash = "#token=SECRET"`)
	b.shows("ask Anna")
	b.until(`!location.href.includes("token") && document.getElementById("trouble").textContent === ""`)
}

// A button must not disappear while the user is about to press it.
func TestUIKeepsTheFocusWhenARowAboveGoes(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, true, threeNames()...)
	x.opens(b, "#token=SECRET")
	b.shows("gamma")
	b.do(chromedp.Focus(`[aria-label^="Break gamma"]`))
	x.reads(readingOf(threeNames()[1:]...))
	b.until(`!document.body.innerText.includes("alpha")`)
	if focus := evaluate[string](b, `document.activeElement.getAttribute("aria-label") ?? ""`); !strings.HasPrefix(focus, "Break gamma") {
		t.Errorf("got focus on %q, want Break gamma", focus)
	}
	// Two names that look alike stay two rows.
	for _, note := range []string{"first", "second", "third"} {
		x.reads(readingOf(stateWith("a\x1b", entryOf(1, 5, "web-1", note)), stateWith(`a\x1b`, entryOf(2, 5, "web-2", note))))
		b.shows(note)
	}
	if rows := evaluate[int](b, `document.querySelectorAll("#names > li").length`); rows != 2 {
		t.Errorf("got %d rows, want 2", rows)
	}
	b.nothingWrong()
}

// The page says that nothing was lost only after a read.
func TestUIReportsWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, false)
	x.page.last = reading{}
	x.opens(b, "#token=SECRET")
	silent := func() {
		t.Helper()
		if text := evaluate[string](b, `document.getElementById("watched").textContent`); text != "" {
			t.Error(text)
		}
	}
	b.shows("read-only")
	silent()
	x.reads(readingOf(threeNames()...))
	b.shows("Nothing, in the")
	x.reads(damaged(readingOf(threeNames()...)))
	b.shows("b: damaged")
	silent()
	b.nothingWrong()
}

// A long queue is collapsed, and shows only its first claims.
func TestUIShowsTheFirstOfALongQueue(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, false)
	reads := func(waiters int) {
		entries := []store.Entry{entryOf(1, 5, "web-1", "")}
		for i := range waiters {
			entries = append(entries, entryOf(byte(i+2), 0, "web-2", ""))
		}
		x.reads(readingOf(stateWith("a", entries...)))
	}
	reads(3)
	x.opens(b, "#token=SECRET")
	b.shows("3 wait")
	b.until(`document.querySelector("details").open`)
	reads(250)
	b.shows("250 wait")
	b.until(`!document.querySelector("details").open`)
	b.clicks("summary")
	b.shows("and 150 more")
	if rows := evaluate[int](b, `document.querySelectorAll("ol > li").length`); rows != 100 {
		t.Errorf("got %d rows, want 100", rows)
	}
	reads(240)
	b.shows("and 140 more") // and it stays open
	b.nothingWrong()
}

func TestUISaysHowOldItIs(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, false)
	old := readingOf(threeNames()...)
	old.at = time.Now().Add(-time.Minute)
	if err := x.page.took(old, time.Second); err != nil {
		t.Fatal(err)
	}
	x.opens(b, "#token=SECRET")
	b.shows("a store, read 1m")
	x.keepsReading(b, func() { x.reads(readingOf(threeNames()...)) }, `document.getElementById("store").textContent === "a store"`)
	b.nothingWrong()
}

// A haltedStore breaks a hold only when the test lets it.
type haltedStore struct {
	fakeStore
	began, may chan struct{}
}

func (h *haltedStore) breakHold(context.Context, holdfast.Break) error {
	close(h.began)
	<-h.may
	return nil
}

// A late answer to a break does not close the next question.
func TestUILeavesTheNextQuestionOpen(t *testing.T) {
	t.Parallel()
	b, x := newBrowser(t), newUITest(t, true, threeNames()...)
	halted := &haltedStore{began: make(chan struct{}), may: make(chan struct{})}
	x.page.store = halted
	x.opens(b, "#token=SECRET")
	b.shows("gamma")
	asks := func(name string) {
		t.Helper()
		b.do(chromedp.Focus(`[aria-label^="Break ` + name + `"]`))
		b.types(kb.Enter)
		b.until(`document.activeElement.id === "reason"`)
	}
	asks("alpha")
	b.types("why" + kb.Enter)
	b.until(`document.activeElement.id === "yes"`)
	b.types("yes" + kb.Enter)
	<-halted.began
	b.types(kb.Escape)
	asks("beta")
	close(halted.may)
	b.shows("alpha: broken")
	if !evaluate[bool](b, `document.querySelector("dialog").open && document.getElementById("breaking-what").textContent === "Break beta?"`) {
		t.Error("the next question was closed")
	}
	b.nothingWrong()
}

// contrasts are the texts of the page with too little contrast to their background (WCAG AA).
const contrasts = `(() => {
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = parse(c).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
	return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
		.filter(e => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x); return (a + .05) / (b + .05) < 4.5; })
		.map(e => e.outerHTML.slice(0, 80));
})()`

func TestUIWorksNarrowAndWideLightAndDark(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	newUIPage(t, b)
	behind := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 480, 700, 1000, 1600} {
			b.looks(width, 700, scheme)
			if wide := evaluate[int64](b, `Math.round(Math.max(...[...document.querySelectorAll("body, body *")].map(e => e.getBoundingClientRect().right), document.scrollingElement.scrollWidth))`); wide > width {
				t.Errorf("%s: got a page of width %d in a window of %d", scheme, wide, width)
			}
			if faint := evaluate[[]string](b, contrasts); len(faint) > 0 {
				t.Errorf("%s, %d: too little contrast: %q", scheme, width, faint)
			}
		}
		behind[evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(behind) != 2 {
		t.Errorf("light and dark have the same background: %v", behind)
	}
	b.nothingWrong()
}

// Each control has a name for screen readers.
func TestUIHasAccessibleLabels(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	newUIPage(t, b)
	look := func() map[string][]string {
		tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string][]string{}
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			var role, name string
			json.Unmarshal([]byte(n.Role.Value), &role)
			if n.Name != nil {
				json.Unmarshal([]byte(n.Name.Value), &name)
			}
			names[role] = append(names[role], name)
		}
		for _, role := range []string{"button", "textbox", "searchbox", "combobox", "dialog", "heading", "region", "DisclosureTriangle"} {
			if slices.Contains(names[role], "") {
				t.Errorf("got a %s without a name: %q", role, names[role])
			}
		}
		return names
	}
	names := look()
	for role, name := range map[string]string{"searchbox": "Show only", "combobox": "Sort by", "button": "Break deploy of web-1 pid 7 (job)", "region": "Lost lately", "heading": "nightly/import"} {
		if !slices.Contains(names[role], name) {
			t.Errorf("got no %s %q: %q", role, name, names[role])
		}
	}
	b.clicks(`[aria-label^="Break deploy"]`)
	b.until(`document.activeElement.id === "reason"`)
	names = look()
	if !slices.Contains(names["dialog"], "Break deploy?") || !slices.Contains(names["textbox"], "Why? The holder gets this reason:") {
		t.Errorf("got dialog %q, textbox %q", names["dialog"], names["textbox"])
	}
}

var writePictures = flag.Bool("write-pictures", false, "write docs/pictures instead of checking them")

const pictureDir = "../../docs/pictures"

// The pictures of the documentation are made by
//
//	go test ./cmd/holdfast -run '^TestThePicturesOfThePage$' -args -write-pictures
//
// They differ a little with each browser, so they are not compared.
func TestThePicturesOfThePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	again, pictures := newUIPage(t, b), map[string][]byte{}
	b.looks(1180, 770, "light")
	again()
	pictures["ui-wide.png"] = b.picture()
	b.looks(400, 900, "dark")
	again()
	pictures["ui-narrow.png"] = b.picture()
	b.looks(760, 420, "light")
	again()
	b.clicks(`[aria-label^="Break deploy"]`)
	b.until(`document.activeElement.id === "reason"`)
	b.types("web-1 hangs")
	pictures["ui-break.png"] = b.picture()
	page, err := os.ReadFile("../../docs/ui.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range pictures {
		file := filepath.Join(pictureDir, name)
		if *writePictures {
			if err := os.MkdirAll(pictureDir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		is, err := os.ReadFile(file)
		if err != nil || len(is) > 64<<10 {
			t.Errorf("%s: got %d bytes, %v", file, len(is), err)
		}
		there, err := png.DecodeConfig(bytes.NewReader(is))
		made, madeErr := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || madeErr != nil || there.Width != made.Width || there.Height != made.Height {
			t.Errorf("%s and the new picture differ in size: %v, %v", file, err, madeErr)
		}
		if !strings.Contains(string(page), "(pictures/"+name+")") {
			t.Errorf("docs/ui.md does not show %s", name)
		}
	}
}

// picture is a screenshot of the window, as a small PNG.
func (b *browser) picture() []byte {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	// The edges of letters have many colors: the 256 most frequent ones suffice.
	used := map[color.Color]int{}
	for y := range raw.Bounds().Dy() {
		for x := range raw.Bounds().Dx() {
			used[raw.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(used), func(a, b color.Color) int { return used[b] - used[a] })
	few := image.NewPaletted(raw.Bounds(), color.Palette(most[:min(len(most), 256)]))
	near := map[color.Color]uint8{}
	for y := range raw.Bounds().Dy() {
		for x := range raw.Bounds().Dx() {
			c := raw.At(x, y)
			i, ok := near[c]
			if !ok {
				i = uint8(few.Palette.Index(c))
				near[c] = i
			}
			few.SetColorIndex(x, y, i)
		}
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, few); err != nil {
		b.t.Fatal(err)
	}
	return small.Bytes()
}
