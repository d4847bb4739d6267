//go:build !holdfast_lean

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A uiTest is the server of the page, without a store or a socket.
type uiTest struct {
	*testing.T
	page    *uiPage
	store   *fakeStore
	handler http.Handler
}

func newUITest(t *testing.T, mayBreak bool, states ...store.State) *uiTest {
	f := &fakeStore{}
	x := &uiTest{T: t, store: f, page: &uiPage{store: f, token: "SECRET", mayBreak: mayBreak, began: time.Now()}}
	x.handler = x.page.handler()
	x.reads(readingOf(states...))
	return x
}

func (x *uiTest) reads(r *reading) {
	x.Helper()
	now := *r
	now.at = time.Now()
	if err := x.page.took(&now, time.Second); err != nil {
		x.Fatal(err)
	}
}

// request is a request as a browser sends it, with the given changes.
func (x *uiTest) request(method, path, body string, change func(*http.Request)) (int, string, http.Header) {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer SECRET")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "http://127.0.0.1:8080")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	x.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func (x *uiTest) state() (s uiState) {
	x.Helper()
	code, body, _ := x.request(http.MethodGet, "/state", "", nil)
	if err := json.Unmarshal([]byte(body), &s); code != http.StatusOK || err != nil {
		x.Fatalf("got %d %v: %s", code, err, body)
	}
	return s
}

func TestUIShowsHoldersQueuesInOrderAndTimes(t *testing.T) {
	x := newUITest(t, false, threeNames()...)
	s := x.state()
	if s.Store != "a store" || len(s.Names) != 3 || s.Names[0].Name != "alpha" || s.Trouble != "" {
		t.Fatalf("%+v", s)
	}
	alpha := s.Names[0]
	if len(alpha.Holders) != 1 || len(alpha.Waiters) != 2 || !strings.HasPrefix(alpha.Waiters[0].Owner, "web-7 ") || !strings.HasPrefix(alpha.Waiters[1].Owner, "web-8 ") {
		t.Errorf("%+v", alpha)
	}
	if h := alpha.Holders[0]; h.Owner != "web-1 pid 7 (job)" || h.Note != "ask Anna" || h.Token != "5" || h.Age < 10000 || h.Left > 30000 || h.Left < 1000 || h.Breakable {
		t.Errorf("%+v", h)
	}
}

// A page of another site can make its own name resolve to this host.
func TestUIRefusesOtherHosts(t *testing.T) {
	x := newUITest(t, true, threeNames()...)
	for host, want := range map[string]int{
		"127.0.0.1:8080": 200, "127.0.0.1": 200, "localhost:9999": 200, "LOCALHOST": 200, "[::1]:8080": 200, "127.9.9.9:1": 200,
		"evil.example:8080": 421, "evil.example": 421, "127.0.0.1.evil.example:8080": 421, "10.0.0.1:8080": 421, "0.0.0.0:8080": 421, "localhost.evil.example": 421, "": 421,
	} {
		for _, path := range []string{"/", "/ui.js", "/state"} {
			if code, _, _ := x.request(http.MethodGet, path, "", func(r *http.Request) { r.Host = host }); code != want {
				t.Errorf("%q%s: got %d, want %d", host, path, code, want)
			}
		}
	}
}

func TestUINeedsItsToken(t *testing.T) {
	x := newUITest(t, true, threeNames()...)
	for _, auth := range []string{"", "Bearer ", "Bearer SECRE", "Bearer SECRETT", "SECRET", "Basic SECRET"} {
		for path, method := range map[string]string{"/state": http.MethodGet, "/break": http.MethodPost} {
			code, body, _ := x.request(method, path, "{}", func(r *http.Request) { r.Header.Set("Authorization", auth) })
			if code != http.StatusUnauthorized || strings.Contains(body, "alpha") {
				t.Errorf("%s with %q: got %d %s", path, auth, code, body)
			}
		}
	}
	// The files that need no token contain nothing of the store.
	for _, path := range []string{"/", "/ui.js", "/ui.css", "/icon.svg"} {
		code, body, _ := x.request(http.MethodGet, path, "", func(r *http.Request) { r.Header.Del("Authorization") })
		if code != http.StatusOK || strings.Contains(body, "alpha") || strings.Contains(body, "SECRET") {
			t.Errorf("%s: got %d", path, code)
		}
	}
}

// breakAlpha is what the page sends to break the hold of alpha.
func breakAlpha(change func(*breakRequest)) string {
	b := breakRequest{ID: readingOf(threeNames()...).states[0].Entries[0].ID.String(), Token: "5", Reason: "host is gone", Answer: "yes"}
	if change != nil {
		change(&b)
	}
	text, _ := json.Marshal(b)
	return string(text)
}

func TestUIRefusesOtherSites(t *testing.T) {
	x := newUITest(t, true, threeNames()...)
	for name, change := range map[string]func(*http.Request){
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"origin": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example")
		},
		"port": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://127.0.0.1:3000")
		},
	} {
		if code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(nil), change); code != http.StatusForbidden {
			t.Errorf("%s: got %d %s, want 403", name, code, body)
		}
	}
	form := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") } // a content type that a form can send
	if code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(nil), form); code != http.StatusBadRequest {
		t.Errorf("a form: got %d %s, want 400", code, body)
	}
	// A browser first asks whether a page of another site may send the token, and is refused.
	if code, _, h := x.request(http.MethodOptions, "/break", "", nil); code == http.StatusOK || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: got %d %v", code, h)
	}
	if len(x.store.broken) != 0 {
		t.Errorf("got %+v broken, want none", x.store.broken)
	}
}

func TestUIIsReadOnlyByDefault(t *testing.T) {
	x := newUITest(t, false, threeNames()...)
	code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(nil), nil)
	if code != http.StatusForbidden || !strings.Contains(body, "--allow-break") || len(x.store.broken) != 0 {
		t.Errorf("got %d %s %+v, want 403", code, body, x.store.broken)
	}
}

func TestUIBreaksOnlyAfterAReasonAndAYes(t *testing.T) {
	x := newUITest(t, true, threeNames()...)
	waits := readingOf(threeNames()...).states[0].Entries[1].ID.String()
	for name, change := range map[string]func(*breakRequest){
		"no answer":   func(b *breakRequest) { b.Answer = "" },
		"no":          func(b *breakRequest) { b.Answer = "no" },
		"y":           func(b *breakRequest) { b.Answer = "y" },
		"no reason":   func(b *breakRequest) { b.Reason = " \n" },
		"long reason": func(b *breakRequest) { b.Reason = strings.Repeat("x", store.MaxReason+1) },
		"another id":  func(b *breakRequest) { b.ID = strings.Repeat("0", len(b.ID)) },
		"older token": func(b *breakRequest) { b.Token = "4" },
		"a waiter":    func(b *breakRequest) { b.ID, b.Token = waits, "0" },
	} {
		if code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(change), nil); code < 400 || len(x.store.broken) != 0 || !strings.Contains(body, "not broken") {
			t.Fatalf("%s: got %d %s %+v", name, code, body, x.store.broken)
		}
	}
	code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(func(b *breakRequest) { b.Reason = "host\x1b[2J is gone" }), nil)
	want := holdfast.Break{Name: "alpha", ID: readingOf(threeNames()...).states[0].Entries[0].ID.String(), Token: 5, Reason: `host\x1b[2J is gone`}
	if code != http.StatusOK || !strings.Contains(body, "alpha: broken") || len(x.store.broken) != 1 || x.store.broken[0] != want {
		t.Errorf("got %d %s %+v, want %+v", code, body, x.store.broken, want)
	}
	x.store.err = &message{"alpha: there is no such hold", holdfast.ErrLost}
	if code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(nil), nil); code != http.StatusConflict || !strings.Contains(body, "not broken: alpha: there is no such hold") {
		t.Errorf("got %d %s, want 409", code, body)
	}
	x.store.err = &message{"a store: no answer", holdfast.ErrUnavailable}
	if code, body, _ := x.request(http.MethodPost, "/break", breakAlpha(nil), nil); code < 500 || strings.Contains(body, "not broken") {
		t.Errorf("got %d %s, want 500 or more", code, body)
	}
}

// The page gets no text from the store that a browser or a person could misread.
func TestUIEscapesWhatOthersWrote(t *testing.T) {
	bad := entryOf(1, 5, "h\x1b[2J", "n\u202e<img src=x onerror=alert(1)>\u2066\r\nnote\u009b\u200b")
	bad.Broken = "b\u202e\x00"
	x := newUITest(t, true)
	for _, name := range []string{"a\x1b[2Jb", "\r\n\t\x00", "\u202eabc", "a\u200bb", "\u2066x\u2069", "</script><script>alert(1)</script>"} {
		x.reads(readingOf(stateWith(name, bad)))
		x.reads(&reading{where: "s\u202e", err: &message{"x\u202e\x1b", holdfast.ErrUnavailable}})
		_, body, _ := x.request(http.MethodGet, "/state", "", nil)
		var all any
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		walk(all, func(text string) {
			for _, r := range text {
				if !unicode.IsPrint(r) {
					t.Errorf("%q: got %q in %q", name, r, text)
				}
			}
		})
	}
	if s := x.state(); len(s.Names) != 1 || s.Names[0].Name != "</script><script>alert(1)</script>" {
		t.Errorf("%+v", s.Names)
	}
}

// walk calls do with each text in a JSON value.
func walk(what any, do func(string)) {
	switch what := what.(type) {
	case string:
		do(what)
	case []any:
		for _, w := range what {
			walk(w, do)
		}
	case map[string]any:
		for _, w := range what {
			walk(w, do)
		}
	}
}

// The last read stays on the page, with the error.
func TestUISaysThatTheStoreIsAway(t *testing.T) {
	x := newUITest(t, false, threeNames()...)
	x.reads(readingAway())
	if s := x.state(); len(s.Names) != 3 || s.Trouble != "a store: no answer" {
		t.Errorf("%+v", s)
	}
	x.reads(readingOf(threeNames()...))
	if s := x.state(); s.Trouble != "" {
		t.Errorf("%+v", s)
	}
}

func TestUIDropsEndedNamesDespiteADamagedName(t *testing.T) {
	x := newUITest(t, false, threeNames()...)
	denied := readingOf()
	denied.err = &message{"a store: the list is not for this user", holdfast.ErrDenied}
	x.reads(denied)
	if s := x.state(); len(s.Names) != 3 || s.Trouble == "" {
		t.Errorf("%+v", s)
	}
	x.reads(damaged(readingOf()))
	if s := x.state(); len(s.Names) != 0 || s.Trouble != "b: damaged" {
		t.Errorf("%+v", s)
	}
}

func TestUIEndsAtOnceWithAStoreThatItMayNotRead(t *testing.T) {
	page := &uiPage{store: &fakeStore{}}
	if err := page.took(&reading{err: holdfast.ErrDenied, at: watchedAt}, time.Second); codeOf(err) != exitDenied {
		t.Errorf("%v", err)
	}
	if err := page.took(readingAway(), time.Second); err != nil {
		t.Errorf("%v", err)
	}
}

// Nothing is loaded from another host, no inline script runs, and no site can put the page in a frame.
func TestUIPageNeedsNothingForeign(t *testing.T) {
	x := newUITest(t, false)
	for _, path := range []string{"/", "/ui.js", "/ui.css", "/icon.svg", "/state", "/none"} {
		_, body, h := x.request(http.MethodGet, path, "", nil)
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: got no %s in %q", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%s: got policy %q", path, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" && path != "/none" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: got headers %v", path, h)
		}
		body = strings.ReplaceAll(body, `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, foreign := range []string{"http:", "https:", "//cdn", "innerHTML", "<style", " style=", " onclick=", "eval("} {
			if strings.Contains(body, foreign) {
				t.Errorf("%s contains %q", path, foreign)
			}
		}
	}
}

// lossReading is a read of one hold with its remaining time, at a time after the first read.
func lossReading(after time.Duration, left time.Duration, change func(*store.Entry)) *reading {
	e := entryOf(1, 5, "web-1", "")
	e.Expires, e.Ends = left, left
	if change != nil {
		change(&e)
	}
	r := readingOf(stateWith("a", e))
	r.at = watchedAt.Add(after)
	return r
}

func goneAfter(after time.Duration) *reading {
	r := readingOf()
	r.at = watchedAt.Add(after)
	return r
}

func awayAfter(after time.Duration) *reading {
	r := readingAway()
	r.at = watchedAt.Add(after)
	return r
}

func TestUIReportsLossesAndNotReleases(t *testing.T) {
	const s = time.Second
	broken := func(e *store.Entry) { e.Broken = "alice@web-3: why" }
	freed := func(e *store.Entry) { e.Broken, e.Freed = "alice@web-3: why", true }
	expired := func(e *store.Entry) { e.Expires, e.Ends = 0, 10*s }
	for name, c := range map[string]struct {
		readings []*reading
		want     string // how it was lost; "" if it was not
	}{
		"released":                             {[]*reading{lossReading(0, 30*s, nil), goneAfter(s)}, ""},
		"released between two reads":           {[]*reading{lossReading(0, s/2, nil), goneAfter(s)}, ""},
		"released, kept closed by a minimum":   {[]*reading{lossReading(0, 30*s, nil), lossReading(s, 0, expired)}, ""},
		"a minimum from before the first read": {[]*reading{lossReading(0, 0, expired), goneAfter(11 * s)}, ""},
		"renewed":                              {[]*reading{lossReading(0, 20*s, nil), lossReading(s, 30*s, nil)}, ""},
		"not renewed, and gone":                {[]*reading{lossReading(0, 30*s, nil), lossReading(29*s, s, nil), goneAfter(31 * s)}, "expired"},
		"not renewed, with a lock delay":       {[]*reading{lossReading(0, 30*s, nil), lossReading(29*s, s, nil), lossReading(31*s, 0, expired), goneAfter(50 * s)}, "expired"},
		"late, but released":                   {[]*reading{lossReading(0, 30*s, nil), lossReading(25*s, 5*s, nil), goneAfter(26 * s)}, ""},
		"broken":                               {[]*reading{lossReading(0, 30*s, nil), lossReading(s, 29*s, broken), lossReading(2*s, 28*s, broken), goneAfter(3 * s)}, "broken"},
		"broken with now":                      {[]*reading{lossReading(0, 30*s, nil), lossReading(s, 29*s, freed), goneAfter(3 * s)}, "broken"},
		"gone while the store was silent":      {[]*reading{lossReading(0, 30*s, nil), awayAfter(s), goneAfter(60 * s)}, "expired"},
		"gone after a silence of an instant":   {[]*reading{lossReading(0, 30*s, nil), awayAfter(s), goneAfter(5 * s)}, ""},
	} {
		switch list := lostIn(c.readings...); {
		case c.want == "" && len(list) > 0:
			t.Errorf("%s: got %+v, want none", name, list)
		case c.want != "" && (len(list) != 1 || list[0].how != c.want || list[0].line.Name != "a"):
			t.Errorf("%s: got %+v, want one that is %s", name, list, c.want)
		}
	}
}

// lostIn is what was lost, according to these reads.
func lostIn(readings ...*reading) []loss {
	var x losses
	for _, r := range readings {
		x.see(r)
	}
	return x.list
}

// damaged is the read, plus a name that could not be read.
func damaged(r *reading) *reading {
	r.err = &message{"b: damaged", holdfast.ErrCorrupt}
	return r
}

func TestUIListsLossesDespiteADamagedName(t *testing.T) {
	const s = time.Second
	broken := func(e *store.Entry) { e.Broken = "alice@web-3: why" }
	if list := lostIn(lossReading(0, 30*s, nil), damaged(lossReading(s, 29*s, broken)), damaged(goneAfter(2*s))); len(list) != 1 || list[0].how != "broken" {
		t.Errorf("%+v", list)
	}
}

func TestUIKeepsNamesThatItCouldNotRead(t *testing.T) {
	const s = time.Second
	late := func() []*reading { return []*reading{lossReading(0, 30*s, nil), lossReading(29*s, s, nil)} }
	if list := lostIn(append(late(), damaged(goneAfter(31*s)), lossReading(32*s, 30*s, nil))...); len(list) != 0 {
		t.Errorf("renewed: got %+v", list)
	}
	if list := lostIn(append(late(), damaged(goneAfter(29*s+s/2)), goneAfter(31*s))...); len(list) != 1 || list[0].how != "expired" {
		t.Errorf("not renewed: got %+v", list)
	}
	if list := lostIn(lossReading(0, 30*s, nil), damaged(goneAfter(s)), goneAfter(60*s)); len(list) != 0 {
		t.Errorf("released: got %+v", list)
	}
}

// A lease that is not renewed has little time left before its release.
func TestUIMarksLossesThatMayBeReleases(t *testing.T) {
	const s = time.Second
	for gap, want := range map[time.Duration]bool{2 * s: false, 20 * s: true} {
		list := lostIn(lossReading(0, 30*s, nil), lossReading(29*s, s, nil), goneAfter(29*s+gap))
		if len(list) != 1 || strings.Contains(list[0].why, "may have been given back") != want {
			t.Errorf("after %v: got %+v", gap, list)
		}
	}
}

func TestUIForgetsOldLosses(t *testing.T) {
	var x losses
	for i := range 2 * mostLost {
		x.add(&line{ID: strconv.Itoa(i), Token: int64(i)}, "broken", "why", watchedAt)
	}
	if len(x.list) != mostLost || x.list[0].line.Token != 2*mostLost-1 {
		t.Errorf("got %d losses, the first is %+v", len(x.list), x.list[0])
	}
	if x.see(goneAfter(2 * toldTime)); len(x.told) != 0 {
		t.Errorf("got %d ids kept", len(x.told))
	}
}

// The page lists the loss as well.
func TestUIListsLosses(t *testing.T) {
	x := newUITest(t, false, threeNames()...)
	states := threeNames()
	states[0].Entries[0].Broken = "alice@web-3: why"
	x.reads(readingOf(states...))
	x.reads(readingOf(states[1:]...))
	if s := x.state(); len(s.Lost) != 1 || s.Lost[0].Name != "alpha" || s.Lost[0].State != "broken" || s.Lost[0].Why != "alice@web-3: why" || s.Lost[0].Token != "5" {
		t.Errorf("%+v", s.Lost)
	}
}

// A hold that the page breaks may have gone before the next read. It is listed once, also if a read under way still
// has its earlier state.
func TestUIListsItsOwnBreakAtOnce(t *testing.T) {
	x := newUITest(t, true, threeNames()...)
	lists := func(want int) {
		t.Helper()
		if s := x.state(); len(s.Lost) != want || want > 0 && (s.Lost[0].Name != "alpha" || s.Lost[0].State != "broken" || s.Lost[0].Why != "this page: host is gone") {
			t.Errorf("%+v", s.Lost)
		}
	}
	x.store.err = &message{"a store: no answer", holdfast.ErrUnavailable}
	x.request(http.MethodPost, "/break", breakAlpha(nil), nil)
	lists(0)
	x.store.err = nil
	x.request(http.MethodPost, "/break", breakAlpha(nil), nil)
	lists(1)
	x.reads(readingOf(threeNames()...))
	lists(1)
	states := threeNames()
	states[0].Entries[0].Broken = "alice@web-3: host is gone"
	x.reads(readingOf(states...))
	x.reads(damaged(readingOf(states[1:]...)))
	x.reads(readingOf(states...))
	x.reads(readingOf(states[1:]...))
	lists(1)
}
