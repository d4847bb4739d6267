//go:build !holdfast_lean

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A fakeStore answers what the test sets.
type fakeStore struct {
	answer reading
	broken []holdfast.Break
	err    error
}

func (f *fakeStore) read(context.Context) reading { return f.answer }
func (f *fakeStore) breakHold(_ context.Context, b holdfast.Break) error {
	f.broken = append(f.broken, b)
	return f.err
}

// A topTest is a model without a terminal.
type topTest struct {
	*testing.T
	m     *topModel
	store *fakeStore
}

func newTopTest(t *testing.T, states ...store.State) *topTest {
	f := &fakeStore{}
	x := &topTest{t, newTop(t.Context(), f, time.Second), f}
	x.send(tea.WindowSizeMsg{Width: 140, Height: 20})
	x.reads(readingOf(states...))
	return x
}

func (x *topTest) send(msg tea.Msg) tea.Cmd {
	_, cmd := x.m.Update(msg)
	return cmd
}

func (x *topTest) reads(r *reading) tea.Cmd { return x.send(readMsg{*r}) }

// types sends keys: words in <> are keys with a name.
func (x *topTest) types(keys string) (last tea.Cmd) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "back": tea.KeyBackspace}
	for keys != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(keys, "<"), ">"); ok && keys[0] == '<' {
			last, keys = x.send(tea.KeyPressMsg{Code: named[name]}), rest
			continue
		}
		r := []rune(keys)[0]
		last, keys = x.send(tea.KeyPressMsg{Code: r, Text: string(r)}), keys[len(string(r)):]
	}
	return last
}

// shows checks that the screen has the texts, in that order.
func (x *topTest) shows(texts ...string) {
	x.Helper()
	rest := x.m.text()
	for _, text := range texts {
		i := strings.Index(rest, text)
		if i < 0 {
			x.Fatalf("%q is missing or out of order among %q:\n%s", text, texts, x.m.text())
		}
		rest = rest[i+len(text):]
	}
}

func (x *topTest) hides(text string) {
	x.Helper()
	if strings.Contains(x.m.text(), text) {
		x.Fatalf("%q is shown:\n%s", text, x.m.text())
	}
}

func ends(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, quit := cmd().(tea.QuitMsg)
	return quit
}

// threeNames are alpha (young, a queue of two), beta (old) and gamma (expires first).
func threeNames() []store.State {
	alpha, beta, gamma := entryOf(1, 5, "web-1", "ask Anna"), entryOf(4, 6, "db-1", ""), entryOf(5, 7, "web-3", "")
	beta.Age, gamma.Expires = time.Hour, 3*time.Second
	return []store.State{stateWith("alpha", alpha, entryOf(2, 0, "web-7", ""), entryOf(3, 0, "web-8", "")), stateWith("beta", beta), stateWith("gamma", gamma)}
}

func TestTopShowsHoldersQueuesAndTimesThatMove(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	x.shows("3 in use", "alpha", "held", "2", "10s", "30s", "web-1 pid 7 (job)", "ask Anna", "beta", "1h0m0s", "gamma")
	x.send(timeMsg{watchedAt.Add(2 * time.Second)})
	x.shows("alpha", "12s", "28s", "beta", "1h0m2s", "gamma", "12s", "1s")
	x.reads(readingOf())
	x.shows("0 in use", "no lock is in use")
}

func TestTopSortsAndFilters(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	x.types("a")
	x.shows("NOTE", "beta", "alpha", "gamma")
	x.types("e")
	x.shows("NOTE", "gamma", "alpha", "beta")
	x.types("w")
	x.shows("NOTE", "alpha", "beta", "gamma")
	x.types("nr")
	x.shows("NOTE", "gamma", "beta", "alpha")
	x.types("/ANNA")
	x.shows("alpha", "Show only: ANNA")
	x.hides("gamma")
	x.types("<enter>")
	x.hides("Show only")
	x.hides("beta")
	x.types("<esc>")
	x.shows("gamma", "beta", "alpha")
	x.types("/web-8<enter>") // a waiter counts
	x.shows("alpha")
	x.hides("beta")
}

func TestTopDropsEndedNamesDespiteADamagedName(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	x.reads(damaged(readingOf()))
	x.shows("b: damaged")
	x.hides("alpha")
}

func TestTopShowsAQueueInItsOrder(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	x.types("<enter>")
	x.shows("alpha", "held", "5", "web-1", "1.", "waiting", "web-7", "2.", "waiting", "web-8")
	x.hides("beta")
	x.reads(readingOf(threeNames()[1]))
	x.shows("alpha: nobody holds it or waits for it")
	x.types("<esc>")
	x.shows("beta")
}

// The cursor stays on its name, whatever names are inserted before it.
func TestTopKeepsTheCursorOnItsName(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	x.types("<down>")
	x.reads(readingOf(append(threeNames(), stateWith("aaa", entryOf(9, 9, "h", "")))...))
	x.types("<enter>")
	x.shows("beta", "db-1")
	x.reads(readingOf())
	x.types("<esc>b<down><up>G")
	x.shows("no lock is in use")
}

func TestTopBreaksOnlyAfterAReasonAndAYes(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	for _, keys := range []string{"b<esc>", "b<enter>", "bwhy<enter><esc>", "bwhy<enter>y<enter>", "bwhy<enter>no<enter>", "b  <enter>"} {
		if cmd := x.types(keys); cmd != nil || x.m.mode != browsing {
			t.Fatalf("%s: got mode %v", keys, x.m.mode)
		}
		x.shows("not broken")
		x.types("<esc>")
	}
	x.types("bhost is gone")
	x.shows("Break alpha of web-1 pid 7 (job). Why?", "host is gone")
	x.types("<enter>")
	x.reads(readingOf(threeNames()[1:]...)) // reads meanwhile do not change the question
	x.shows("Break alpha? [yes/no]")
	x.types("yes")
	cmd := x.types("<enter>")
	if cmd == nil || len(x.store.broken) != 0 {
		t.Fatal("nothing was done, or the model itself broke the hold")
	}
	x.send(cmd())
	want := holdfast.Break{Name: "alpha", ID: readingOf(threeNames()...).states[0].Entries[0].ID.String(), Token: 5, Reason: "host is gone"}
	if len(x.store.broken) != 1 || x.store.broken[0] != want {
		t.Fatalf("got %+v broken, want %+v", x.store.broken, want)
	}
	x.shows("alpha: broken; the next waiter gets the lock when the hold has expired")
	x.store.err = &message{"beta: there is no such hold", holdfast.ErrLost}
	x.types("b" + "why<enter>yes")
	x.send(x.types("<enter>")())
	x.shows("beta: there is no such hold")
}

func TestTopAsksWhichOfSeveralHoldsToBreak(t *testing.T) {
	one, two := entryOf(1, 5, "web-1", ""), entryOf(2, 6, "web-2", "")
	one.Weight, two.Weight = 1, 1
	x := newTopTest(t, stateWith("readers", one, two, entryOf(3, 0, "web-9", "")))
	x.types("b")
	x.shows("web-1", "web-2", "several hold it")
	x.types("<down>b")
	x.shows("Break readers of web-2 pid 7")
	x.types("<esc><down>b")
	x.shows("no hold that can be broken")
}

func TestTopEscapesWhatOthersWrote(t *testing.T) {
	bad := entryOf(1, 5, "h\x1b[2J", "n\x1b]0;x\a\r\nnote\u202e\u009b")
	bad.Broken = "b\x1b[31m"
	for _, name := range []string{"a\x1b[2Jb", "\r\n\t\x00", "\u202eabc", "名前名前名前", strings.Repeat("長", 170), "\xff\xfe"} {
		x := newTopTest(t, stateWith(name, bad))
		for _, keys := range []string{"", "<enter>", "bx\x1b[2J"} {
			x.types(keys)
			text := strings.NewReplacer("\x1b[7m", "", "\x1b[1m", "", "\x1b[m", "").Replace(x.m.text())
			for _, r := range text {
				if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e) {
					t.Errorf("%q: the screen shows %q:\n%q", name, r, text)
				}
			}
		}
	}
}

func TestTopFitsEveryScreen(t *testing.T) {
	var many []store.State
	for i := range 100 {
		many = append(many, stateWith(fmt.Sprintf("名前-%03d", i), entryOf(1, 5, "web-1", strings.Repeat("注", 50)), entryOf(2, 0, "w", "")))
	}
	x := newTopTest(t, many...)
	for _, keys := range []string{"", "G", "<enter>", "b", "why<enter>"} {
		x.types(keys)
		for height := range 30 {
			for _, width := range []int{0, 1, 2, 10, 40, 79, 300} {
				x.send(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(x.m.text(), "\n")
				if len(lines) > max(height, 1) {
					t.Fatalf("%dx%d: got %d rows", width, height, len(lines))
				}
				for _, l := range lines {
					l = strings.NewReplacer("\x1b[7m", "", "\x1b[1m", "", "\x1b[m", "", "…", ".").Replace(l)
					if n := columnsOf(l); n > width {
						t.Fatalf("%dx%d: got %d columns: %q", width, height, n, l)
					}
				}
			}
		}
	}
	x = newTopTest(t, many...)
	x.types("G")
	x.shows("名前-099")
}

// The last read stays on the screen, with one line about the error.
func TestTopSaysInOneLineThatTheStoreIsAway(t *testing.T) {
	x := newTopTest(t, threeNames()...)
	if x.reads(readingAway()) == nil {
		t.Fatal("the store is not read again")
	}
	x.shows("alpha", "a store: no answer; asking again in 2s")
	x.reads(readingAway())
	x.shows("alpha", "a store: no answer; asking again in 4s")
	if n := strings.Count(x.m.text(), "no answer"); n != 1 {
		t.Errorf("the error is shown %d times, want once", n)
	}
	x.reads(readingOf(threeNames()...))
	x.hides("no answer")
}

func TestTopEndsAtOnceWithAStoreThatItMayNotRead(t *testing.T) {
	x := &topTest{t, newTop(t.Context(), &fakeStore{}, time.Second), nil}
	if !ends(x.reads(&reading{err: holdfast.ErrDenied, at: watchedAt})) || codeOf(x.m.end) != exitDenied {
		t.Errorf("%v", x.m.end)
	}
}

func TestTopLeavesByItsKeysAndBySignals(t *testing.T) {
	x := newTopTest(t)
	if !ends(x.types("q")) || x.m.end != nil {
		t.Errorf("q: got %v", x.m.end)
	}
	x.types("/")
	if cmd := x.types("q"); ends(cmd) {
		t.Error("q ends the program while a text is typed")
	}
	if !ends(x.send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})) || x.m.end == nil {
		t.Errorf("Ctrl-C: got %v", x.m.end)
	}
	if !ends(x.send(endMsg{endedBy(givesUp[0])})) || x.m.end == nil {
		t.Errorf("a signal: got %v", x.m.end)
	}
}
