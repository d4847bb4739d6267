package prove

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestThePageShowsWhoHeldWhoWaitedAndWhatWasWrong(t *testing.T) {
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
		"Redis &lt;at&gt; home", "not proved", "Check 1: process 1, claim 3 (lock, token 1) and process 2, claim 1", "hold it together for 4ms",
		`class="whole"><title>claim 3, lock: token 1`, `class="part"><title>claim 1, read: token 3`,
		`class="wait"><title>claim 3, lock: waited 1ms`, `class="lost"`, `class="fault"><title>latency, met 1`, `<title>frozen, met 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	charts := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(charts) != len(s.Run.Names) {
		t.Errorf("%d charts of %d names", len(charts), len(s.Run.Names))
	}
	for _, c := range charts {
		d := xml.NewDecoder(strings.NewReader(c))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in a chart: %.300s", err, c)
			}
		}
	}
}
