package prove

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A script is a history written by hand. Times are in milliseconds, and the TTL is 500.
type script struct {
	History
	ops map[int]int
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// newScript is a history of three processes. One fault strikes, all processes finish, and each name was taken in the
// end.
func newScript() *script {
	s := &script{ops: map[int]int{}}
	s.Run = Run{Format: format, TTL: ms(500), PositionTTL: ms(500), Names: []Name{{"a", "rw", store.Full}, {"s", "slots", 3}}, Forgets: []Fault{wiped}}
	for p := 1; p <= 3; p++ {
		s.add(0, Event{Do: started, Proc: p})
		s.add(20_000, Event{Do: finished, Proc: p})
	}
	s.add(1, Event{Do: struck, Proc: 3, Fault: latency})
	s.add(2, Event{Do: mended, Proc: 3, Fault: latency, Hits: 1})
	s.add(10_000, Event{Do: calm})
	for i, n := range s.Run.Names {
		c := s.claim(1, n.Name, probe, n.Limit, 10_001+10*i)
		c.got(10_002+10*i, 9000+i).release(10_003+10*i, 10_004+10*i)
	}
	s.add(19_000, Event{Do: left})
	return s
}

func (s *script) add(at int, e Event) {
	e.At = ms(at)
	s.Events = append(s.Events, e)
}

// A line is one claim of a script.
type line struct {
	s    *script
	p    int
	op   int
	name string
	sent time.Duration // when the store was first asked
}

func (s *script) claim(p int, name, verb string, weight int64, call int) *line {
	s.ops[p]++
	limit := int64(store.Full)
	if name == "s" {
		limit = 3
	}
	s.add(call, Event{Do: ask, Proc: p, Op: s.ops[p], Name: name, Verb: verb, Weight: weight, Limit: limit})
	return &line{s, p, s.ops[p], name, ms(call)}
}

func (s *script) lock(p, call int) *line { return s.claim(p, "a", "lock", store.Full, call) }

func (s *script) rlock(p, call int) *line { return s.claim(p, "a", "read", 1, call) }

func (s *script) slots(p int, k int64, call int) *line {
	return s.claim(p, "s", "slots", k, call)
}

func (l *line) add(at int, e Event) *line {
	e.Proc, e.Op = l.p, l.op
	l.s.add(at, e)
	return l
}

// got is a grant that is good for half a second.
func (l *line) got(at, token int) *line {
	id := fmt.Sprintf("%d-%d", l.p, l.op)
	return l.add(at, Event{Do: got, Token: int64(token), ID: id, Until: ms(at + 490), Sent: l.sent})
}

func (l *line) release(at, returned int) *line {
	return l.add(at, Event{Do: release}).add(returned, Event{Do: released})
}

func (l *line) not(at int, err string) *line { return l.add(at, Event{Do: not, Err: err}) }

// placed is a queue position that was answered at at and first asked for at sent.
func (l *line) placed(sent, at int) *line {
	id := fmt.Sprintf("%d-%d", l.p, l.op)
	l.sent = ms(sent)
	return l.add(at, Event{Do: placed, ID: id, Sent: l.sent})
}

func (s *script) judge() *Verdict {
	s.sort()
	return Check(&s.History)
}

// Each case is a history, with the check that finds it wrong; 0 is none.
var histories = []struct {
	name  string
	wrong check
	says  string
	play  func(s *script)
}{
	{"one after the other", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.lock(2, 12).got(21, 2).release(30, 31)
	}},
	{"the next claim holds it while the release is under way", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 25)
		s.lock(2, 12).got(21, 2).release(30, 31)
	}},
	{"a peer's lock is lost before its worker reports the grant, and its release does not report that", 0, "", func(s *script) {
		s.Run.Peer, s.Run.Lines = true, true
		s.lock(1, 10).add(600, Event{Do: got, Token: 1, ID: "1", Until: ms(600)}).add(602, Event{Do: lost}).release(603, 604)
		s.lock(2, 520).got(530, 2).release(610, 611)
	}},
	{"a name that is not probed at the end, as its process failed", 0, "", func(s *script) {
		s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.Proc == 1 && e.Op > 0 })
		s.add(5, Event{Do: failed, Proc: 1, Text: "no such file"})
	}},
	{"a peer's lock refuses a try because of its own lost requests, and then other tries", 0, "", func(s *script) {
		s.Run.Peer = true
		s.add(4990, Event{Do: struck, Proc: 2, Fault: reset})
		s.claim(2, "a", "try", store.Full, 5000).not(5001, "held")
		s.add(5010, Event{Do: mended, Proc: 2, Fault: reset, Hits: 1})
		s.claim(1, "a", "try", store.Full, 5020).not(5021, "held")
	}},
	{"a peer's lock refuses a try without a fault, or with one only in an idle process", linear, "", func(s *script) {
		s.Run.Peer = true
		s.add(4990, Event{Do: struck, Proc: 2, Fault: reset})
		s.add(5010, Event{Do: mended, Proc: 2, Fault: reset, Hits: 1})
		s.claim(2, "a", "try", store.Full, 5020).not(5021, "held")
	}},
	{"two claims hold it", exclusion, "for 4ms", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.lock(2, 12).got(16, 2).release(30, 31)
	}},
	{"a reader and a writer hold it", exclusion, "token 2", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.rlock(2, 12).got(16, 2).release(30, 31)
	}},
	{"two readers hold it, their tokens in any order", 0, "", func(s *script) {
		s.rlock(1, 10).got(11, 2).release(20, 21)
		s.rlock(2, 12).got(16, 1).release(30, 31)
	}},
	{"slots up to the limit", 0, "", func(s *script) {
		s.slots(1, 1, 10).got(11, 2).release(20, 21)
		s.slots(2, 2, 12).got(16, 1).release(30, 31)
	}},
	{"one slot too many", exclusion, "", func(s *script) {
		s.slots(1, 1, 10).got(11, 1).release(20, 21)
		s.slots(2, 2, 12).got(13, 2).release(30, 31)
		s.slots(3, 1, 12).got(14, 3).release(30, 31)
	}},
	{"an upgrade while a reader holds it", exclusion, "", func(s *script) {
		s.rlock(1, 10).got(11, 1).release(20, 21)
		s.claim(2, "a", "upgradeable", store.Full/2+1, 10).got(12, 2).add(15, Event{Do: weight, Weight: store.Full, Token: 3}).release(30, 31)
	}},
	{"an upgrade after the reader's release, and a downgrade before the next reader", 0, "", func(s *script) {
		s.rlock(1, 10).got(11, 1).release(14, 15)
		u := s.claim(2, "a", "upgradeable", store.Full/2+1, 10).got(12, 2).add(16, Event{Do: weight, Weight: store.Full, Token: 3})
		u.add(20, Event{Do: weight, Weight: store.Full/2 + 1}).add(21, Event{Do: lowered}).release(30, 31)
		s.rlock(1, 18).got(22, 4).release(24, 25)
	}},
	{"a reported loss ends a hold", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(100, Event{Do: lost}).release(120, 121)
		s.lock(2, 12).got(110, 2).release(130, 131)
	}},
	{"a fault by which the store loses nothing excuses nothing", exclusion, "", func(s *script) {
		s.add(5, Event{Do: struck, Fault: restarted})
		s.add(6, Event{Do: mended, Fault: restarted, Hits: 1})
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.lock(2, 12).got(16, 2).release(30, 31)
	}},
	{"the deadline ends a hold", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(501, Event{Do: over}).add(502, Event{Do: lost})
		s.lock(2, 12).got(511, 2).release(530, 531)
	}},
	{"a renewal moves the deadline", exclusion, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(200, Event{Do: until, Until: ms(690)}).release(600, 601)
		s.lock(2, 12).got(511, 2).release(530, 531)
	}},
	{"a killed process holds nothing", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1)
		s.add(20, Event{Do: died, Proc: 1})
		s.lock(2, 12).got(21, 2).release(30, 31)
	}},
	{"two claims hold it after a wipe", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.add(12, Event{Do: struck, Fault: wiped})
		s.add(13, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(2, 12).got(16, 2).release(30, 31)
	}},
	{"two claims hold it long after a wipe", exclusion, "", func(s *script) {
		s.add(12, Event{Do: struck, Fault: wiped})
		s.add(13, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(1, 610).got(611, 1).release(620, 621)
		s.lock(2, 612).got(616, 2).release(630, 631)
	}},
	{"two claims hold it after a fault by which no store loses data", exclusion, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.add(12, Event{Do: struck, Fault: frozen})
		s.add(13, Event{Do: mended, Fault: frozen, Hits: 1})
		s.lock(2, 12).got(16, 2).release(30, 31)
	}},

	{"a refusal of a free lock, long after a wipe", linear, "", func(s *script) {
		s.add(12, Event{Do: struck, Fault: wiped})
		s.add(13, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(1, 600).got(601, 1).release(620, 621)
		s.claim(2, "a", "try", store.Full, 5000).not(5001, "held")
	}},
	{"a smaller token", tokens, "smaller token", func(s *script) {
		s.lock(1, 10).got(11, 5).release(20, 21)
		s.lock(2, 12).got(21, 4).release(30, 31)
	}},
	{"a reader after a writer, with a smaller token", tokens, "smaller token", func(s *script) {
		s.lock(1, 10).got(11, 5).release(20, 21)
		s.rlock(2, 12).got(21, 4).release(30, 31)
	}},
	{"a token twice", tokens, "two grants have the token 5", func(s *script) {
		s.rlock(1, 10).got(11, 5).release(20, 21)
		s.rlock(2, 12).got(13, 5).release(30, 31)
	}},
	{"a smaller token handed over after a wipe", 0, "", func(s *script) {
		l := s.lock(1, 10).got(11, 5).release(20, 21)
		id := fmt.Sprintf("1-%d", l.op)
		s.add(12, Event{Do: struck, Fault: wiped})
		s.add(13, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(2, 14).got(15, 7).release(17, 18)
		s.lock(1, 19).add(22, Event{Do: got, Token: 6, ID: id, Until: ms(501)}).release(30, 31)
	}},
	{"a smaller token of a hold asked for after a wipe", tokens, "smaller token", func(s *script) {
		s.add(12, Event{Do: struck, Fault: wiped})
		s.add(13, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(2, 14).got(15, 7).release(17, 18)
		s.lock(1, 19).got(22, 6).release(30, 31)
	}},
	{"a token twice after a wipe", tokens, "", func(s *script) {
		s.lock(1, 10).got(11, 5).release(20, 21)
		s.add(22, Event{Do: struck, Fault: wiped})
		s.add(23, Event{Do: mended, Fault: wiped, Hits: 1})
		s.lock(2, 24).got(26, 5).release(30, 31)
	}},
	{"an upgrade without a new token", tokens, "", func(s *script) {
		s.claim(2, "a", "upgradeable", store.Full/2+1, 10).got(12, 2).add(16, Event{Do: weight, Weight: store.Full}).release(30, 31)
		s.rlock(1, 10).got(11, 3).release(14, 15)
	}},
	{"a re-entry with another token", tokens, "a re-entry of", func(s *script) {
		s.lock(1, 10).got(11, 1).add(12, Event{Do: nested, Token: 2}).release(20, 21)
	}},
	{"the fence refuses a late write", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(600, Event{Do: use, Token: 1, Write: true, Refused: true}).add(601, Event{Do: over}).add(602, Event{Do: lost})
		s.lock(2, 12).got(511, 2).add(512, Event{Do: use, Token: 2, Write: true}).release(530, 531)
	}},
	{"the fence refuses the holder", tokens, "which held the lock", func(s *script) {
		s.lock(1, 10).got(11, 1).add(15, Event{Do: use, Token: 1, Write: true, Refused: true}).release(20, 21)
	}},

	{"a grant that had ended before its release was requested", linear, "", func(s *script) {
		// The two holds are not seen to overlap. Yet the second was granted and released between the call and the answer
		// of a hold that lasted.
		s.lock(1, 10).got(11, 3).release(40, 41)
		s.lock(2, 12).got(13, 4).add(13, Event{Do: release}).add(14, Event{Do: released})
	}},
	{"a refusal of a free lock", linear, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.claim(2, "a", "try", store.Full, 5000).not(5001, "held")
	}},
	{"a refusal while another claim holds it", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 21)
		s.claim(2, "a", "try", store.Full, 13).not(15, "held")
	}},
	{"a refusal while another claim may be asking", 0, "", func(s *script) {
		s.claim(2, "a", "try", store.Full, 13).not(15, "held")
		s.lock(1, 14).not(30, "cancelled")
	}},
	{"a refusal because an ask arrived late, after the release of its claim", 0, "", func(s *script) {
		s.add(9, Event{Do: struck, Proc: 1, Fault: late})
		s.add(12, Event{Do: mended, Proc: 1, Fault: late, Hits: 1})
		s.lock(1, 10).got(15, 1).release(20, 21)
		s.claim(2, "a", "try", store.Full, 40).not(41, "held")
	}},
	{"a refusal long after an ask may have arrived late", linear, "", func(s *script) {
		s.add(9, Event{Do: struck, Proc: 1, Fault: late})
		s.add(12, Event{Do: mended, Proc: 1, Fault: late, Hits: 1})
		s.lock(1, 10).got(15, 1).release(20, 21)
		s.claim(2, "a", "try", store.Full, 5000).not(5001, "held")
	}},
	{"a refusal though no ask can have arrived late", linear, "", func(s *script) {
		s.add(9, Event{Do: struck, Proc: 1, Fault: late})
		s.add(12, Event{Do: mended, Proc: 1, Fault: late, Hits: 1})
		s.lock(1, 13).got(15, 1).release(20, 21)
		s.claim(2, "a", "try", store.Full, 40).not(41, "held")
	}},
	{"a refusal because of an entry left by a dead process", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1)
		s.add(20, Event{Do: died, Proc: 1})
		s.claim(2, "a", "try", store.Full, 300).not(301, "held")
	}},

	{"a loss reported late", reported, "210ms after a bare timer", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)}).add(712, Event{Do: lost})
	}},
	{"a loss that is not reported", reported, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)})
	}},
	{"a loss reported late while the parent stalled, and with it all links", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)}).add(900, Event{Do: lost})
		s.add(880, Event{Do: stall, By: ms(375)})
	}},
	{"a loss reported late by a stopped process", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)}).add(900, Event{Do: lost})
		s.add(880, Event{Do: stall, Proc: 1, By: ms(375)})
	}},
	{"a lease that is valid again after its expiry", reported, "valid again", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)}).add(504, Event{Do: until, Until: ms(1000)}).release(510, 511)
	}},
	{"a loss that a release reported", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)}).add(503, Event{Do: release}).add(504, Event{Do: released, Err: "lost"})
	}},
	{"a killed process reports nothing", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).add(502, Event{Do: over, By: ms(1)})
		s.add(510, Event{Do: died, Proc: 1})
	}},

	{"a name that no process can take at the end", live, "no process could take it", func(s *script) {
		s.Run.Names = append(s.Run.Names, Name{"b", "mutex", store.Full})
	}},
	{"a name that is taken too late", live, "may take 2.5s", func(s *script) {
		s.Run.Names = append(s.Run.Names, Name{"b", "mutex", store.Full})
		s.claim(1, "b", probe, store.Full, 10_010).got(12_600, 7).release(12_610, 12_611)
	}},
	{"a name that a worker by lines takes late, but in time", 0, "", func(s *script) {
		s.Run.Peer, s.Run.Lines = true, true
		s.Run.Names = append(s.Run.Names, Name{"b", "mutex", store.Full})
		s.claim(1, "b", probe, store.Full, 10_010).got(12_600, 7).release(12_610, 12_611)
	}},
	{"a name that a worker by lines takes too late", live, "may take 10.5s", func(s *script) {
		s.Run.Peer, s.Run.Lines = true, true
		s.Run.Names = append(s.Run.Names, Name{"b", "mutex", store.Full})
		s.claim(1, "b", probe, store.Full, 10_010).got(20_600, 7).release(20_610, 20_611)
	}},
	{"a name that a stopped process takes late, but in time", 0, "", func(s *script) {
		s.Run.Names = append(s.Run.Names, Name{"b", "mutex", store.Full})
		s.claim(1, "b", probe, store.Full, 10_010).got(12_600, 7).release(12_610, 12_611)
		s.add(12_300, Event{Do: stall, Proc: 1, By: ms(1000)})
	}},
	{"a claim that waited at the last fault is not granted", live, "was not served within", func(s *script) {
		l := s.lock(1, 9990)
		s.Events[len(s.Events)-1].Bound = ms(5000)
		l.not(14_990, "cancelled")
	}},
	{"a claim that waited at the last fault gives up soon", 0, "", func(s *script) {
		l := s.lock(1, 9990)
		s.Events[len(s.Events)-1].Bound = ms(2400)
		l.not(12_390, "cancelled")
	}},
	{"an entry is left", live, "1 entries are left", func(s *script) {
		s.add(19_001, Event{Do: left, Name: "a", Entries: 1})
	}},
	{"a claim is never answered", live, "never answered", func(s *script) {
		s.lock(1, 10)
	}},

	{"first come, first served", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		s.lock(2, 12).placed(12, 14).got(101, 2).release(110, 111)
		s.lock(3, 13).placed(15, 18).got(111, 3).release(120, 121)
	}},
	{"the second waiter is granted first", order, "was granted later", func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		a := s.lock(2, 12).placed(12, 14)
		b := s.lock(3, 13).placed(15, 18)
		b.got(101, 2).release(110, 111)
		a.got(111, 3).release(120, 121)
	}},
	{"the second waiter is granted first, though its position may be the earlier one", 0, "", func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		a := s.lock(2, 12).placed(12, 16)
		b := s.lock(3, 13).placed(15, 18)
		b.got(101, 2).release(110, 111)
		a.got(111, 3).release(120, 121)
	}},

	{"a hold is handed over with the old token", tokens, "have the token 1", func(s *script) {
		l := s.lock(1, 10).got(11, 1).release(20, 21)
		id := fmt.Sprintf("1-%d", l.op)
		s.lock(1, 12).add(21, Event{Do: got, Token: 1, ID: id, Until: ms(501)}).release(30, 31)
	}},
	{"a hold is handed over with a new token", 0, "", func(s *script) {
		l := s.lock(1, 10).got(11, 1).release(20, 21)
		id := fmt.Sprintf("1-%d", l.op)
		s.lock(1, 12).add(21, Event{Do: got, Token: 2, ID: id, Until: ms(501)}).release(30, 31)
	}},
	{"a call that outlives its context", bounded, "may take", func(s *script) {
		s.lock(1, 10).got(11, 1).release(1300, 1301)
		l := s.lock(2, 12)
		s.Events[len(s.Events)-1].Bound = ms(100)
		l.not(1200, "cancelled")
	}},
	{"a call that outlives its context in a process that was stopped", 0, "", func(s *script) {
		l := s.lock(2, 12)
		s.Events[len(s.Events)-1].Bound = ms(100)
		l.not(1200, "cancelled")
		s.add(1199, Event{Do: stall, Proc: 2, By: ms(1000)})
	}},
	{"an upgrade that outlives its context", bounded, "the upgrade", func(s *script) {
		l := s.claim(1, "a", "upgradeable", store.Upgradeable, 10).got(11, 1)
		l.add(20, Event{Do: upgrade, Bound: ms(100)}).add(1300, Event{Do: stayed, Err: "cancelled"})
	}},
	{"a downgrade that takes too long", bounded, "the downgrade", func(s *script) {
		l := s.claim(1, "a", "upgradeable", store.Upgradeable, 10).got(11, 1)
		l.add(20, Event{Do: upgrade, Bound: ms(100)}).add(21, Event{Do: weight, Weight: store.Full, Token: 2})
		l.add(30, Event{Do: weight, Weight: store.Upgradeable}).add(1700, Event{Do: lowered})
	}},
	{"an upgrade and a downgrade in time", 0, "", func(s *script) {
		l := s.claim(1, "a", "upgradeable", store.Upgradeable, 10).got(11, 1)
		l.add(20, Event{Do: upgrade, Bound: ms(100)}).add(21, Event{Do: weight, Weight: store.Full, Token: 2})
		l.add(30, Event{Do: weight, Weight: store.Upgradeable}).add(31, Event{Do: lowered}).release(40, 41)
	}},
	{"a call that outlives its context, in a process whose one stall is reported several times", bounded, "may take", func(s *script) {
		l := s.lock(2, 12)
		s.Events[len(s.Events)-1].Bound = ms(100)
		for i := range 3 {
			s.add(700+i, Event{Do: stall, Proc: 2, By: ms(500)})
		}
		l.not(1700, "cancelled")
	}},
	{"a release that takes too long", bounded, "the release", func(s *script) {
		s.lock(1, 10).got(11, 1).release(20, 1600)
	}},
}

// Each case is a history of a store that lacks some promises.
var lackingHistories = []struct {
	name  string
	lacks []store.Promise
	wrong check // 0: none
	not   []check
	play  func(s *script)
}{
	{"a lost hold overlaps the next", []store.Promise{store.PromiseDeadline}, 0, []check{exclusion, reported}, func(s *script) {
		s.lock(1, 10).got(11, 1).add(40, Event{Do: lost}).release(50, 51)
		s.lock(2, 12).got(20, 2).release(100, 101)
	}},
	{"a hold that was not lost overlaps the next", []store.Promise{store.PromiseDeadline}, linear, []check{exclusion, reported}, func(s *script) {
		s.lock(1, 10).got(11, 1).release(50, 51)
		s.lock(2, 12).got(20, 2).release(100, 101)
	}},
	{"a grant reported late, of a hold that had been lost", []store.Promise{store.PromiseDeadline}, 0, []check{exclusion, reported}, func(s *script) {
		s.lock(1, 10).got(30, 1).add(40, Event{Do: lost}).release(50, 51)
		s.lock(2, 12).got(20, 2).release(100, 101)
	}},
	{"a smaller token after a lost hold", []store.Promise{store.PromiseDeadline}, tokens, []check{exclusion, reported}, func(s *script) {
		s.lock(1, 10).got(11, 2).add(40, Event{Do: lost}).release(50, 51)
		s.lock(2, 60).got(61, 1).release(100, 101)
	}},
	{"the fence refuses a lost hold", []store.Promise{store.PromiseDeadline}, 0, []check{exclusion, reported}, func(s *script) {
		l := s.lock(1, 10).got(11, 1)
		l.add(30, Event{Do: use, Token: 1, Refused: true}).add(40, Event{Do: lost}).release(50, 51)
		s.lock(2, 12).got(20, 2).release(100, 101)
	}},
	{"the fence refuses a hold that was not lost", []store.Promise{store.PromiseDeadline}, tokens, []check{exclusion, reported}, func(s *script) {
		l := s.lock(1, 10).got(11, 1)
		l.add(30, Event{Do: use, Token: 1, Refused: true}).release(50, 51)
	}},
	{"without tokens", []store.Promise{store.PromiseTokens}, 0, []check{tokens, order}, func(s *script) {
		s.lock(1, 10).got(11, 0).release(20, 21)
		s.lock(2, 12).got(21, 0).release(30, 31)
	}},
	{"two claims hold it, without tokens", []store.Promise{store.PromiseTokens}, exclusion, []check{tokens, order}, func(s *script) {
		s.lock(1, 10).got(11, 0).release(20, 21)
		s.lock(2, 12).got(16, 0).release(30, 31)
	}},
	{"of two holders together, the later one polled first", []store.Promise{store.PromiseNotificationToken}, 0, nil, func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		a := s.rlock(2, 12).placed(12, 14)
		b := s.rlock(3, 15).placed(15, 18)
		b.got(102, 2).release(120, 121)
		a.got(103, 3).release(120, 122)
	}},
	{"of two that exclude each other, the later one was granted first", []store.Promise{store.PromiseNotificationToken}, order, nil, func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		a := s.lock(2, 12).placed(12, 14)
		b := s.lock(3, 15).placed(15, 18)
		b.got(102, 2).release(110, 111)
		a.got(111, 3).release(120, 121)
	}},
	{"in any order", []store.Promise{store.PromiseOrder}, 0, []check{order}, func(s *script) {
		s.lock(1, 10).got(11, 1).release(100, 101)
		a := s.lock(2, 12).placed(12, 14)
		b := s.lock(3, 15).placed(15, 18)
		b.got(101, 2).release(110, 111)
		a.got(111, 3).release(120, 121)
	}},
}
