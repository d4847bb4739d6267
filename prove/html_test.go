package prove

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestThePageShowsHoldersWaitersAndViolations(t *testing.T) {
	s := newScript()
	s.Run.Processes, s.Run.Store = 3, "Redis <at> home"
	s.lock(1, 10).got(11, 1).release(20, 21)
	s.lock(2, 12).got(16, 2).add(506, Event{Do: over}).add(507, Event{Do: lost})
	s.rlock(3, 4000).got(4001, 3).release(4100, 4101)
	s.add(4010, Event{Do: struck, Fault: frozen})
	s.add(4020, Event{Do: mended, Fault: frozen, Hits: 1})
	v := s.judge()
	var out strings.Builder
	if err := (&Report{Run: s.Run, Verdict: v}).HTML(&out, &s.History); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"Redis &lt;at&gt; home", "<h1>Not proved: two had this lock at the same time.</h1>", "Two workers had the same lock at the same time.", "Check 1: process 1, claim 3 (lock, token 1) and process 2, claim 1", "held it at the same time for 4ms",
		`class="whole"><title>claim 3, lock: token 1`, `class="part"><title>claim 1, read: token 3`,
		`class="wait"><title>claim 3, lock: waited 1ms`, `class="lost"`, `class="fault"><title>latency, hits 1`, `<title>frozen, hits 1`,
		// A row for each of the two, how long they held it together, whose grant it was, and why.
		`>process 1, claim 3</div>`, `>process 2, claim 1</div>`, `class="overlap" `, "held by too many for 4ms",
		"token 2 until 506.000 ms   &lt;- this broke it</mark>", "Cause: process 2, claim 1 (lock, token 2) was granted while another claim held the lock.", `data-by="2"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	charts := regexp.MustCompile(`(?s)<svg height.*?</svg></div>`).FindAllString(page, -1)
	if want := len(s.Run.Names) + len(v.Violations); len(charts) != want || len(v.Violations) == 0 {
		t.Errorf("got %d charts, want one for each name and violation: %d", len(charts), want)
	}
	for _, c := range charts {
		d := xml.NewDecoder(strings.NewReader(strings.TrimSuffix(c, "</div>")))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in a chart: %.300s", err, c)
			}
		}
	}
}

// Text of a worker or a driver is shown, and cannot run as HTML.
func TestForeignTextIsOnlyShown(t *testing.T) {
	r := &run{o: &Options{URL: "redis://me:top%20secret@host:1/0"}}
	r.add(Event{At: 1, Do: failed, Text: "no redis://me:top%20secret@127.0.0.1:5 (top secret)\r\x1b[2Ji <script>"})
	s := newScript()
	s.Events = append(s.Events, r.events...)
	s.Run.Store = "a\x1b]0;b\a\u202e"
	report := &Report{Run: s.Run, Verdict: s.judge()}
	var text, page strings.Builder
	if err := errors.Join(report.Print(&text), report.HTML(&page, &s.History)); err != nil {
		t.Fatal(err)
	}
	if want := `the run could not go on: no redis://me:…@127.0.0.1:5 (…)\r\x1b[2Ji <script>`; !strings.Contains(text.String(), want) || strings.ContainsAny(text.String(), "\x1b\r\a\u202e") {
		t.Errorf("got text %q, want %q in it", text.String(), want)
	}
	if got := page.String(); strings.Contains(got, "secret") || !strings.Contains(got, "i &lt;script&gt;") {
		t.Errorf("got page %s, want it escaped and without secrets", got)
	}
	for url, want := range map[string]string{"u:pw@tcp(h:1)/db": "a … b", "redis://h:1/pw@x": "a pw b", "": "a pw b", "file:/pw": "a pw b", "redis://:pw@h": "a … b", "redis://pw@h": "a pw b"} {
		if got := withoutPassword("a pw b", url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

// A page of a million grants must be small enough for a browser.
func TestAPageOfManyGrantsStaysSmallAndShowsEachMoment(t *testing.T) {
	s := newScript()
	s.Run.Processes = 3
	const many = 20_000
	for i := range many {
		at := 10 + i
		s.lock(1, at).got(at, i+1).release(at, at)
	}
	s.sort()
	v := newView(&s.History)
	c := v.chart(s.Run.Names[0], window{0, v.end})
	bars := c.Rows[0].Bars
	if len(bars) > many/3 {
		t.Errorf("got %d bars for %d grants, want at most a third", len(bars), many)
	}
	for i := 1; i < len(bars); i++ {
		if gap := bars[i].X - (bars[i-1].X + bars[i-1].W); gap > 2*thin && bars[i].X < 99 {
			t.Fatalf("got nothing drawn at %f after %f", gap, bars[i-1].X)
		}
	}
	near := v.chart(s.Run.Names[0], window{ms(100), ms(110)})
	if n := len(near.Rows[0].Bars); n < 10 || n > 40 {
		t.Errorf("got %d bars for ten milliseconds with a grant each, want 10 to 40", n)
	}
}

// The report of a stopped run says how long it ran. That of a lock of your own does not mention waits, which nothing
// could observe.
func TestTheReportSaysHowLongTheRunWasAndWhatWasSeen(t *testing.T) {
	s := newScript()
	s.Run.For, s.Run.Peer = 15*time.Second, true // the faults end after 10s
	report := &Report{Run: s.Run, Verdict: s.judge()}
	var text, page strings.Builder
	if err := errors.Join(report.Print(&text), report.HTML(&page, &s.History)); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{text.String(), page.String()} {
		if !strings.Contains(said, "For 10s, ") || !strings.Contains(said, "10s, 0 processes") || strings.Contains(said, "15s") || strings.Contains(said, "had to wait") {
			t.Errorf("got %s", said)
		}
	}
}
